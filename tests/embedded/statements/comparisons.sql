# A key on the first characters of a text compares them as the whole text is compared.
create table up (id int primary key auto_increment, e text, n int default 0, unique key (e(20)), unique key (n, e(3)))
insert into up (e, n) values ('Bob@x.de', 1)
insert into up (e, n) values ('bob@x.de', 2)
~ which number is used up
insert into up (e, n) values ('BOB@x.de', 3) on duplicate key update n = 4
select e, n from up
~ which number is used up
replace into up (e, n) values ('bOb@x.de', 5)
~ which number is used up
insert ignore into up (e, n) values ('bOB@x.de', 6)
select e, n from up
create table un (v varchar(50) collate utf8mb4_bin, b varbinary(9), unique key (v(5)), unique key (b(2)))
insert into un values ('abcde1', 'ab')
insert into un values ('ABCDE2', 'AB')
insert into un values ('ABCDE3', 'x')
insert into un values ('x', 'abc')
replace into un values ('abcde9', 'abc')
select v, b from un order by v
# REPLACE finds the row that it collides with by a generated column.
create table doc (id int primary key auto_increment, d varchar(20), k varchar(5) as (left(d, 5)) stored, unique key (k))
insert into doc (d) values ('abcde 1'), ('other')
replace into doc (d) values ('ABCDE 2')
select id, d, k from doc order by id
# Several columns are counted each by its own collation.
create table cs (a varchar(10) collate utf8mb4_bin, b varchar(10) collate utf8mb4_bin, c varchar(10))
insert into cs values ('a','x','q'),('A','x','Q'),('a','X','q'),('a','x',null)
select count(distinct a, b), count(distinct a, c), count(distinct c, 1), count(distinct a) from cs
# Joins by name and rows from a query convert as = does.
create table da (d date, n decimal(20,2), s varchar(9), k int, x int)
create table db (d datetime, n int, s varchar(9) collate utf8mb4_bin, k int, y int)
insert into da values ('2024-01-01', 5, 'a', 1, 10), ('2024-01-02', 6, 'b', 2, 20)
insert into db values ('2024-01-01', 5, 'a', 1, 30), ('2024-01-03', 7, 'B', 3, 40)
select n, x, y from da join db using (n)
select count(*) from da join db using (d)
select count(*) from da join db using (d, n, k)
select count(*) from da natural join db
select k, x, y from da left join db using (k, n) order by k
select k, x, y from da right join db using (k, n) order by k
select * from (select n, x from da) a right join (select n, y from db) b using (n) order by 1
select s, x, y from da join db using (s)
select count(*) from da where (d, k) in (select d, k from db)
select count(*) from da where (n, k) in (select n, k from db)
select count(*) from da where (k, n) in (select k, n from db)
select count(*) from da where (k, n) not in (select k, n from db)
select count(*) from da where (k, upper(s)) in (select k, upper(s) from db)
select count(*) from da where (k, s) in (select 1, 'A')
select count(*) from da where (k, s) in (select '1', 'A')
select count(*) from da where (d, 1) in (select '2024-1-1', 1)
drop table up, un, doc, cs, da, db
