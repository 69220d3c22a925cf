create table odd (id int primary key, v int, s varchar(20), d decimal(10,2))
insert into odd (odd.id, odd.v) values (1, 2), (2, 3)
insert into odd (`odd`.`id`, v) values (1, 9) on duplicate key update v = values(odd.v), s = 'values(odd.v)'
insert into odd (id, v) select 3, 4 on duplicate key update v = values(v) + values(odd.v)
select * from odd order by id
with recursive n as (select 1 as v, 'aaaaaaaaaa' s union all select v + 1, concat('b', v) from n where v < 3 or s = 'x') select * from n
with recursive n as (select 1 as v, 1.5 d union all select v + 1, d * 2 from n where v < 3 or d < 2) select v, d > 0 from n
with recursive n (v, s) as (select id, cast(s as char(20)) from odd where id = 1 union select n.v + 1, left(odd.s, 5) from n join odd on odd.id = n.v where n.v < 3 or n.s like 'z%') select v from n order by v
drop table odd
select charset('a'), charset(1), charset(null), charset(x'41'), charset(now()), collation('a'), collation(1), collation('a' collate utf8mb4_bin)
create table o (order int)
create table o (a int, select varchar(9))
create table o (`order` int, status int, name int, date date, value int, type int, offset_ int)
alter table o add column group int
alter table o change status key int
insert into o (`order`) values (1)
select `order` from o
drop table o
create table w (a int, b varchar(20), filter int, text varchar(9), format int, number int)
insert into w (a, b, filter, text, format, number) values (1, 'x', 2, 't', 3, 4)
insert w (w.format, comment) values (5, 6)
insert into w (format, number) values (5, 6)
select a isnull, b notnull, number, filter, text, format from w
select text 'x', number 'y', filter from w
select char(65) 'x', date('2020-01-02 03:04:05') 'day', time '10:11:12'
select w.a, c from w tablesample left join (select 2 as c) u on 1
select tablesample.a, c from w tablesample left join (select 2 as c) u on a = c
select qualify.a, c from w qualify left join (select 2 as c) u on a = c
with year (a) as (select 1) select a from year
select '2020-01-01' + interval isnull(null) day, date_add('2020-01-01', interval coalesce(null, 2) day)
select interval 1 day + '2020-01-01', '2020-01-31' + interval 1 month - interval 2 hour
select '2020-01-01' + interval 1 days
select '2020-01-01' + interval 1 d
select timestampdiff(days, '2020-01-01', '2020-01-03')
select a::char from w
select a == 1 from w
select a from w limit 1 percent
select a from w offset 1
select a from w order by a nulls first
select case when a 1 end from w
select a, from w
insert into w (a int) values (1)
insert into w (a) values (1) on conflict do nothing
select utc_date = utc_date(), current_user = current_user(), char_length(utc_timestamp), char_length(localtime)
select binary(b), binary (b) 'x' from w
drop table w
# Numbers from 10^15 on as text; an ENUM as a condition; a column of YEAR beside two digits
SELECT CONCAT(1e15), CONCAT(1e14), CONCAT(1e16), CONCAT(-1e15), CONCAT(123456789012345678e0), CONCAT(1.5e300), CONCAT(1e-15), CONCAT(1e-16), CONCAT(0e0), CONCAT(1e15 + 0.5), CONCAT(1e15 + 1), CONCAT(1.2345e15), CAST(1e15 AS CHAR)
CREATE TABLE members (id INT PRIMARY KEY, e ENUM('x','y','') NULL, y YEAR)
INSERT INTO members VALUES (1, 'x', 2024), (2, 'y', 1999), (3, '', 0), (4, NULL, NULL)
SELECT IF(e, 1, 0), NOT e, e AND 1, e OR 0, e XOR 1, CASE WHEN e THEN 'a' ELSE 'b' END, e IS TRUE FROM members ORDER BY id
SELECT id FROM members WHERE e ORDER BY id
SELECT y = 24, 24 = y, y = '24', y = 99, y <> 24, y < 25, y > 98, y <=> 24, y = 24.0, y BETWEEN 20 AND 30, y IN ('24'), y = 0, y = 100, y = 2024, y + 0 = 24 FROM members ORDER BY id
SELECT YEAR('2024-01-01') = 24
DROP TABLE members
