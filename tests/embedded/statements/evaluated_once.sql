# A change reads the rows of before it, also through a derived table or a view.
create table it (id int primary key, pos int, uid varchar(40), other varchar(40))
insert into it (id, pos) values (1, 10), (2, 20), (3, 30), (4, 40)
update it set pos = (select sum(d.pos) from (select id, pos from it) d where d.id <= it.id)
select id, pos from it order by id
update it set pos = id * 10
update it set pos = (select sum(e.pos) from (select d.pos, d.id from (select id, pos from it) d) e where e.id <= it.id)
select id, pos from it order by id
update it set pos = id * 10
update it set pos = (select count(*) from (select id, pos from it) d where d.pos <= it.pos)
select id, pos from it order by id
delete from it where (select count(*) from (select id from it) d where d.id > it.id) > 1
select id from it order by id
# What is another each time is evaluated once for each row.
create table n (i int primary key)
insert into n with recursive r(i) as (select 1 union all select i + 1 from r where i < 200) select i from r
select count(*) from (select case floor(rand() * 3) when 0 then 'a' when 1 then 'b' when 2 then 'c' end v from n) x where v is null
~ MariaDB evaluates it twice
select count(*) from (select nullif(floor(rand() * 4), 0) v from n) x where v = 0
create table seeded as select i, r a, r b from (select i, rand() r from n) x
select sum(a <> b) from seeded
with x as (select rand() r from n) select sum(r < 0.5 and r > 0.5) from x
select count(*) from (select uuid() u from n) x where u <> u
create view rv as select i, rand() r from n
select count(*) from rv where r < 0.5 and r > 0.5
insert into it (id, uid, other) select i + 10, u, u from (select i, uuid() u from n) x
select count(*) from it where uid <> other
update it set uid = uuid(), other = uuid()
select count(*) from it where uid = other
drop view rv
drop table it, n, seeded
