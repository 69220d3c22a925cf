create table n (id int auto_increment primary key, k int unique, v int)
insert into n (id, v) values (9+9, 1)
insert into n (v) values (1)
insert into n (id, v) values (40, 1), (45+1, 2)
insert into n (id, v) values (45+2, 1), (NULL, 2), (70, 1)
select last_insert_id()
insert into n (id, v) values (0+0, 1)
insert into n (id, v) values (NULL, 2), (80+0, 1)
insert into n (id, v) select 91, 1 union all select 90, 1
insert into n (id, v) select NULL, 1 union all select 150, 1 union all select NULL, 3
select last_insert_id()
insert into n (id, v) select 150, 1 on duplicate key update v = n.v + 1
insert into n (id, v) values (150+0, 2) on duplicate key update v = 8
insert into n (id, v) values (150+0, 2) on duplicate key update v = 8
insert ignore into n (id, v) select 150, 2
insert ignore into n (id, v) select 251, 2
replace into n (id, v) values (149+1, 2)
replace into n (id, v) select 150, 3
insert into n (id, v) select id + 1000, v from n where id < 40 order by id
insert into n (v) select v from n where id < 40 order by id
select last_insert_id()
select id, v from n order by id
drop table n
create table kk (a int unique, b int unique, c int not null unique, d int primary key, v int)
insert into kk values (1,2,3,4,0), (11,12,13,14,0)
# the primary key first, then keys that are never NULL, then the others
insert into kk values (1,12,33,44,0) on duplicate key update v = v + 1
insert into kk values (1,12,13,44,0) on duplicate key update v = v + 10
insert into kk values (1,12,13,4,0) on duplicate key update v = v + 100
select * from kk order by d
drop table kk
create table en (id int primary key, e enum('red','green','blue'), c varchar(9) collate utf8mb4_bin, s varchar(9))
insert into en values (1,'red','Abc','abc'), (2,'blue','abc','ABC'), (3,'green','q','q'), (4,null,null,'x')
select min(e), max(e), group_concat(e order by e), group_concat(distinct e order by e desc), cast(e as signed) from en where id < 2
select max(e), min(e), group_concat(e order by e) from en
select id, cast(e as signed), e + 0, e > 1 from en order by id
select id, row_number() over (order by e, id) from en order by id
select id, s between c and 'b', 'abc' in (c, s), s in (c, 'zzz'), greatest(s, c), least(c, s) from en order by id
select 'k', count(*) from en group by 'k'
drop table en
create table en (id int auto_increment primary key, e enum('red','green','blue'), d decimal(10,2))
insert into en (e, d) values ('red', 1), ('blue', -0.01), ('green', 0.01), (null, 2)
insert into en (id) values (NULL) on duplicate key update d = 5
select coalesce(e, e) x from en order by x, id
select e from en union select e from en order by 1
select case when id then e end x from en order by 1, id
select id, d / 1000, concat(d / 1000), round(d / 1000, 3), d / 3 from en order by id
select 19.60 / 9.19 union all select cast(26 as decimal(30,8))
select id, count(*) from en group by 2
drop table en
