SELECT 1 UNION SELECT 2 INTERSECT SELECT 3
SELECT 1 EXCEPT (SELECT 2 EXCEPT SELECT 1)
SELECT 1 UNION (SELECT 2 UNION ALL SELECT 2)
(SELECT 1 UNION SELECT 2) INTERSECT SELECT 2
SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 2 UNION ALL SELECT 1
SELECT 1 EXCEPT SELECT 1 UNION SELECT 1
SELECT 1 EXCEPT (SELECT 1 UNION SELECT 1)
SELECT 2 INTERSECT (SELECT 1 UNION SELECT 2 ORDER BY 1 DESC LIMIT 1)
(SELECT 1 UNION SELECT 2 ORDER BY 1 LIMIT 1) UNION ALL SELECT 1
SELECT 1 UNION ALL (SELECT 1 UNION ALL (SELECT 1 UNION SELECT 1))
SELECT LOWER(a) FROM (SELECT 'a' a UNION (SELECT 'A' UNION ALL SELECT 'b')) t ORDER BY 1
SELECT 'a' EXCEPT (SELECT 'A' INTERSECT SELECT 'a')
SELECT 1 UNION SELECT 2 EXCEPT SELECT 2 INTERSECT SELECT 2 ORDER BY 1
(SELECT 1 UNION SELECT 2) EXCEPT (SELECT 2 UNION ALL SELECT 3)
SELECT 1.5 UNION (SELECT 2 UNION ALL SELECT 2) ORDER BY 1
SELECT * FROM (SELECT 1 a UNION SELECT 2 INTERSECT SELECT 2) t ORDER BY a
SELECT 3 IN (SELECT 1 UNION SELECT 3 INTERSECT SELECT 4), 1 IN (SELECT 1 UNION SELECT 3 INTERSECT SELECT 4)
WITH w AS (SELECT 1 a UNION ALL SELECT 2) SELECT a FROM w UNION (SELECT a FROM w EXCEPT SELECT 1) ORDER BY 1
SELECT 1 INTERSECT SELECT 1 UNION ALL SELECT 1
SELECT 1 UNION ALL SELECT 1 UNION SELECT 1 UNION ALL SELECT 1
create table so (i int, s varchar(9), c varchar(9) collate utf8mb4_bin, e enum('red','green'))
insert into so values (1, 'Zeta', 'abc', 'red'), (2, 'b', 'B', 'green'), (3, null, null, null), (null, 'q', 'x', 'red')
# byte by byte where one of the columns is
select s from so union select c from so order by 1
select c from so union select s from so order by 1
select concat(s, c) x from so union select 'Z' order by 1
select s from so except select upper(c) from so order by 1
# SQLite's RIGHT JOIN in a UNION ALL
select * from (select s x from so where (i, s) = (i, e) union all (select 'k' from so a right join so b on a.i = b.i where (a.s > a.s) is not true)) t
select a.s, b.s from so a right join so b on a.i = b.i + 1 order by b.s
select * from so a right join so b using (i) order by b.s
# an ENUM beside NULL remains one: it sorts by its members
select * from (select e x from so union select null) t order by x desc
select * from (select null x union all select e from so) t order by 1
select e x from so union select e from so order by 1
~ refused
select e x from so union select null order by 1
drop table so
# DISTINCT belongs to the last SELECT alone, also where ORDER BY goes by a collation
create table sd (id int primary key, b varchar(9) collate utf8mb4_bin, s varchar(9))
insert into sd values (1, 'a', 'x'), (2, 'b', 'Y'), (3, null, 'x')
select b, id from sd union select s, id from sd union all select distinct b, id from sd order by 1, 2
(select b, id from sd) union select 'x', 1 union distinct (select s, id from sd) union all select distinct b, id from sd order by 1, 2
select s from sd union select b from sd union all select distinct s from sd order by 1
select b from sd except select s from sd union all select distinct b from sd order by 1 desc
# a list is compared by the collations of all its members
select upper(s) in (s), 'X' in (s, 'q'), 'X' in (b, s), 'A' in (b), upper(b) in (b), upper(b) in (s, b), 'x' not in (upper(s), 'q') from sd order by id
select id from sd where 'X' in (s, b) order by id
# what GROUP_CONCAT joins and sorts by keeps its collation
select group_concat(b order by b separator ';'), group_concat(s order by s, id), group_concat(distinct upper(b) order by b desc) from sd
select id, group_concat(upper(b)) g from sd group by id union select 9, 'b' order by g, id
drop table sd
# a column has one type in the whole chain; a chain in parentheses is one of its own
(select 'a') except select 'A' except select 'x' collate utf8mb4_bin
select 'a' intersect select 'A' union select 'x' collate utf8mb4_bin
select 'x' collate utf8mb4_bin union select 'a' intersect select 'A' order by 1
select 1 except select 1.0 except select 'x'
select * from (select 1 a union select 1.0 union select 'x') t order by a
select * from ((select 1 a union select 1.0) union select 'x') t order by a
select 1 intersect select 1.0 union select 'x'
(select 1, 'b') union all (select 2, 'c') limit 1
select 1 union select 2 union select 2, 3
