create table c (id int primary key, k int unique, v int not null default 7, s varchar(8))
insert into c values (1, 10, 1, 'a'), (2, 20, 2, 'b'), (3, 30, 3, null), (4, 40, 4, 'd')
# rows change in the order that is asked for: so there is room for each
update c set id = id + 1 order by id desc
select * from c order by id
update c set id = id + 1
select * from c order by id
update c set id = id - 1 order by id
update c set k = k + 10 order by k desc limit 2
update c set k = k + 10 order by k desc limit 2
select * from c order by id
update c set k = 5, v = 8 where id < 3 order by id
update c set k = 99, v = null order by id desc limit 1
update c set k = 77, v = if(id = 4, 1, null) order by id desc
update c set k = k - 5 where s is not null order by k
update c set v = v + 1 order by v limit 2
select * from c order by id
# NULL is no default, whichever way it comes
replace into c (id, k, v) values (1, 15, null)
replace into c (id, k, v) select 1, 15, null
replace into c (id, k, v) select 1, 15, 3
replace into c (id, k) select id + 1, k + 100 from c
insert into c (id, k, v) select 9, 15, null on duplicate key update v = 1
select * from c order by id
drop table c
# the moment of the statement is one for all its rows
create table late (id int primary key, due datetime(6), n int)
insert into late values (1, '2001-01-01', 1), (2, '2002-01-01', 2), (3, '2999-01-01', 3), (4, null, 4)
update late set n = n + 10 where due < current_timestamp(6) order by due desc limit 1
update late set n = n + 100 where due < now() order by due limit 5
select id, n from late order by id
update late set id = id + 1 where due < now() order by id desc limit 2
select id, n from late order by id
update late set due = now(6), n = 0 where n > 100 order by id
select count(*), count(distinct due) from late where n = 0
drop table late
