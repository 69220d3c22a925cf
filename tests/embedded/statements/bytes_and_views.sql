# Bytes beside text are bytes.
create table bl (id int primary key, b varbinary(20), t text)
insert into bl values (1, x'ff00fe', 'x'), (2, null, 'y'), (3, x'0a', null)
select ifnull(b, ''), coalesce(b, t), if(id = 1, b, 'z'), case when id = 1 then b else t end from bl order by id
select hex(ifnull(b, '')), length(ifnull(b, '')), hex(ifnull(b, t)) from bl order by id
select b from bl where id = 1 union all select t from bl where id = 2
select group_concat(b order by id), hex(group_concat(b order by id desc separator '-')) from bl
select group_concat(distinct b order by b), group_concat(t order by id) from bl
# A view of * shows the columns of the day on which it was made.
create table vt (id int primary key, a int)
insert into vt values (1, 10)
create view vv as select * from vt
create view v2 as select t.*, 1 as one from vt t
create view v3 (x, y) as select id, a from vt
alter table vt add b int default 7 first
select * from vv
select * from v2
select * from v3
select v.a from vv v join v2 using (id)
alter table vt drop a
select * from vv
select * from v2
~ 1356 in servers
select * from v3
drop view vv, v2, v3
# AUTO_INCREMENT can be set again to what it was set to before.
create table ai (id int auto_increment primary key, x int) auto_increment = 100
insert into ai (x) values (1), (2)
delete from ai
alter table ai auto_increment = 1
insert into ai (x) values (1)
delete from ai
alter table ai auto_increment = 1
insert into ai (x) values (1)
alter table ai add y int
insert into ai (x) values (2)
select id from ai
truncate table ai
alter table ai auto_increment = 1
insert into ai (x) values (1)
select id from ai
drop table bl, vt, ai
