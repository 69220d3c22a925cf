create table j (id int primary key, n int, b bool)
insert into j values (1, 1, true), (2, 5, false), (3, null, null)
# what is true or false is so in JSON too; a column of numbers is not
select json_array(true, 1 > 0, false), json_object('a', true), json_array(1 in (1, 2), null is null, not 1)
select json_set('{"a": 1}', '$.a', true), json_set('{"a": 1}', '$.a', 1 > 2), json_array(null > 1)
select json_array(n > 3, b, n is null, b + 0) from j where id < 3 order by id
select json_arrayagg(n > 3) from j where n is not null
select count(distinct n) over () from j
select json_value('{"a": null, "b": [1], "c": "x", "d": 1.5}', '$.a'), json_value('{"a": null, "b": [1], "c": "x"}', '$.b'), json_value('{"c": "x"}', '$.c'), json_value('{"d": 1.5}', '$.d'), json_value('{}', '$.d'), json_value('{"o": {}}', '$.o')
# text out of JSON compares with regard to case
create table d (id int primary key, d json)
insert into d values (1, '{"a": "b"}'), (2, '{"a": "C"}')
select json_unquote(json_extract(d, '$.a')) u from d union select 'B' order by 1
select json_value(d, '$.a') u from d union select 'B' order by 1
select id, json_value(d, '$.a') = 'B', json_unquote(json_extract(d, '$.a')) = 'c', json_value(d, '$.a') in ('B', 'x'), json_value(d, '$.a') between 'A' and 'Z' from d order by id
select id, json_value(d, '$.a') like 'c', concat(json_value(d, '$.a'), 'x') = 'BX', case when 1 then json_value(d, '$.a') else 'x' end = 'c', collation(json_value(d, '$.a')), collation(json_unquote('"a"')) from d order by id
select max(json_value(d, '$.a')), min(json_unquote(json_extract(d, '$.a'))), count(distinct json_value(d, '$.a')) from d
select id from d order by json_value(d, '$.a')
# a column's own collation goes before it
create table e (s varchar(20), b varchar(20) collate utf8mb4_bin)
insert into e values ('B', 'B'), ('c', 'c')
select d.id, e.s, json_value(d.d, '$.a') = e.s, json_unquote(json_extract(d.d, '$.a')) = e.b, e.s in (json_value(d.d, '$.a'), 'x') from d, e order by d.id, e.s
select d.id, e.s from d join e on e.s = json_value(d.d, '$.a') order by d.id
select json_value(d, '$.a') u from d union select s from e order by 1
select json_value(d, '$.a') u from d union select b from e order by 1
select d.id, concat(json_value(d.d, '$.a'), '') = e.s, if(d.id = 1, json_value(d.d, '$.a'), e.s) = 'b' from d, e order by d.id, e.s
create table f as select json_value(d, '$.a') u from d
select collation(u) from f limit 1
drop table f
drop table e
drop table d
drop table j
