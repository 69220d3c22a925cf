# A generated column has the values of its type.
create table ord (id int primary key, qty int, price decimal(10,2), total decimal(10,2) as (qty * price * 1.19) stored, net decimal(8,1) as (price) virtual)
insert into ord (id, qty, price) values (1, 3, 9.99), (2, 1, 0.50), (3, 7, 1.15), (4, 1, -9.95)
select id, total, net from ord order by id
select id from ord where total = 35.66
select id from ord where total in (0.60, 9.58) order by id
select count(distinct total), sum(total) from ord
select count(*) from ord a join ord b on a.total = b.total
create table g (id int primary key, a int, h int as (a / 2) stored, b bigint as (a * 1.5) virtual, f double as (a / 3), s varchar(3) as (concat(a, 'x')) stored, ti tinyint as (a * 2) stored, u int unsigned as (a - 1) stored, c char(6) as (concat(a, '  ')))
insert into g (id, a) values (1, 5), (2, 50), (3, null), (4, 1)
select id, h, b, s, ti, u, concat('[', c, ']') from g order by id
select id from g where h = 3
~ 1406 in both, but of another row first
insert into g (id, a) values (5, 500)
insert into g (id, a) values (5, 64)
~ 1690 in servers
insert into g (id, a) values (6, 0)
update g set a = 100 where id = 1
select id, ti from g order by id
create table g3 (f double, i int as (f) stored, d date, dt datetime as (d) stored, t datetime, dd date as (t) stored, tt datetime(3) as (t))
insert into g3 (f, d, t) values (2.7, '2024-01-01', '2024-02-02 10:11:12'), (-3.7, null, null)
select i, dt, dd, tt from g3 order by f
select count(*) from g3 where dt = '2024-01-01' and dd = '2024-02-02'
create table g4 (s varchar(20), n int as (s) virtual, u char(4) as (left(s, 2)) stored, j json, k int as (json_unquote(json_extract(j, '$.k'))) stored, m decimal(6,2) as (json_unquote(json_extract(j, '$.m'))) stored, on_day date as (json_unquote(json_extract(j, '$.d'))))
insert into g4 (s, j) values ('12', '{"k": 7, "m": 1.256, "d": "2024-05-06"}'), ('7', '{}')
select n, u, k, m, on_day from g4 order by n
select k from g4 where m = 1.26 and on_day = '2024-05-06'
create table g5 (s varchar(9), e enum('Small','Large') as (s) stored)
insert into g5 (s) values ('small'), ('Large')
~ 1265 in servers
insert into g5 (s) values ('huge')
select e from g5 order by e
drop table ord, g, g3, g4, g5
