# What JSON is as a condition.
create table js (id int primary key, d json)
insert into js values (1, '{"a": true, "n": 5, "z": 0, "s": "x", "q": "1", "f": false, "x": 0.5}')
select if(json_extract(d,'$.a'),'y','n'), if(json_extract(d,'$.n'),'y','n'), if(json_extract(d,'$.z'),'y','n'), if(json_extract(d,'$.f'),'y','n'), if(json_extract(d,'$.x'),'y','n') from js
select count(*) from js where json_extract(d, '$.a')
select count(*) from js where not json_extract(d, '$.a')
select count(*) from js where not json_extract(d, '$.f') and json_extract(d, '$.n')
select json_extract(d,'$.a') is true, json_extract(d,'$.f') is true, json_extract(d,'$.none') is true from js
select case when json_extract(d, '$.a') then 1 else 2 end, json_extract(d, '$.a') and 1, json_extract(d, '$.none') or 0 from js
create table jc (d json, check (json_extract(d, '$.ok')))
insert into jc values ('{"ok": true}'), ('{"ok": 1}'), ('{}')
~ 4025 in MariaDB, 3819 in MySQL
insert into jc values ('{"ok": false}')
select json_contains('[1,2]', '1.0'), json_contains('1.0', '1'), json_contains('{"a":1}', '{"a":1.0}'), json_contains('[true]', '1'), json_contains('[1]', 'true')
select json_contains('["1"]', '1'), json_contains('[1,[2,3]]', '[2.0]'), json_contains('[0]', 'false'), json_contains('null', 'null')
# A number given to an ENUM is that of a member.
create table en (id int primary key auto_increment, e enum('0','1'), g enum('2','1','3'))
insert into en (e, g) values (1, 1), (2, 2), ('1', '1'), ('0', '3')
select e, g, e + 0, g + 0 from en order by id
update en set e = 1, g = 3 where id = 2
insert into en (e, g) select id - 1, id from en where id = 3
insert into en (e) values (3)
insert into en (e) values (0)
select e, g from en order by id
# Floating-point numbers are rounded as multiples of a power of ten.
select round(4.35e0,1), round(8.35e0,1), truncate(0.29e0,2), truncate(1.15e0,2), round(1.005e0,2), round(2.5e0), round(3.5e0), round(1234.5e0,-1), round(35e0,-1), round(1e20,2), round(-4.35e0,1), truncate(-0.29e0,2), truncate(129e0,-1), truncate(-129e0,-1)
select format(2.5e0,0), format(3.5e0,0), format(0.285e0,2), format(2.5,0), format('2.5',0), format(1234567.891e0,2), format(-2.5e0,0)
# The decimals of a TIMESTAMP stay.
create table ts (t timestamp(6) null, d datetime(3))
insert into ts values ('2024-01-01 10:00:00.5', '2024-01-01 10:00:00.5')
select time(t), time(d) from ts
# Bit functions of no rows
select bit_and(id), bit_or(id), bit_xor(id) from en where id > 1000
select bit_and(id), bit_or(id), bit_xor(id) from en
select e, bit_or(id) from en where id > 1000 group by e
select hex(sum(id)), hex(cast(255 as decimal(20,0))), hex(cast(254.5 as decimal(30,1))), hex(1.6) from en
drop table js, jc, en, ts
