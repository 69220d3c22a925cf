create table n (id int primary key, d decimal(8,2), g int)
insert into n values (1, 1.25, 1), (2, 160.10, 1), (3, 130.40, 2), (4, 61.60, 2), (5, 121.90, 1), (6, -14.00, 2), (7, 43.10, 3), (8, null, 3), (9, 23.30, 1), (10, 70.55, 2)
# a quotient sorts by what is shown
select d / 70000000 c, id from n order by c, 2 desc
select d / 70000000 c, id from n order by 1 desc, 2 desc
select -(d / 70000000) c, id from n order by c desc, 2 desc
select sum(d / 70000000) c, id from n group by id order by c desc, 2 desc
select max(d / 70000000) c, id from n group by id order by c desc, 2 desc
select * from (select d / 70000000 c, id from n) x order by c desc, 2 desc
select distinct d / 70000000 c, id from n order by c desc, 2 desc
select id, row_number() over (order by d / 70000000, id desc) from n order by 1
# and keeps its digits until then, through what chooses one of several values too
select id, ifnull(d / 70, 0) * 100, coalesce(d / 70, 1) * 100, if(id > 2, d / 70, 0) * 100, greatest(d / 70, 0) * 100 from n order by id
select id, case when d > 5 then d / 70 else 0 end * 100, round(ifnull(d / 70, 0) * 100, 3), nullif(d / 70, 0) * 100 from n order by id
select (select sum(d / 70000000) from n) * 1000
select id, c * 1000 from (select d / 70000000 c, id from n) x order by id
# what is put into a temporary table has the digits that are shown
select id, c * 1000 from (select d / 70000000 c, id from n order by id limit 10) x order by id
select g, c * 1000 from (select max(d) / 70000000 c, g from n group by g) x order by g
select c * 1000 from (select sum(d / 70000000) c from n) x
select id, c * 1000 from (select distinct d / 70000000 c, id from n) x order by id
# no grouping by an aggregate
select id, count(*) from n group by 2
select id, count(*) + 1 from n group by 2
select id, if(count(*), 1, 2) c from n group by c
select id from n group by count(*) + 1
select id, (select count(*) from n) c from n group by 2, 1
drop table n
