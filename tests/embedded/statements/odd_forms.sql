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
