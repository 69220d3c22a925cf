create table bits (a bit, b bit(12))
insert into bits (a, b) values (1, '1')
insert into bits (a, b) values (1, 'ab')
insert into bits (a, b) values ('1', 1)
insert into bits (a, b) values ('', '')
insert into bits (a, b) values (_binary x'01', _binary x'0102')
insert into bits (a, b) values (x'01', x'0102')
insert into bits (a, b) values (true, 12.5)
insert into bits (a, b) values (b'1', b'101'), (0, -1)
insert into bits (a, b) select 1, concat('0', '')
create table numbers (d decimal(5,1), e decimal(30,1), f double, i int)
insert into numbers values (12.5, 13.5, 14.5, 7), (1.4, 2.6, 3.5, 8)
insert into bits (a, b) select 1, d from numbers order by i
insert into bits (a, b) select 1, e from numbers order by i
insert into bits (a, b) select 1, f from numbers order by i
insert into bits (a, b) select 1, i | 1 from numbers order by i
select a, b, cast(a + 0 as signed), cast(b + 0 as signed) from bits order by b, a
create table defaults (a bit default '1')
create table defaults (a bit default b'1', b bit(3) default 5, c bit(9) default '1')
insert into defaults values ()
update defaults set b = '2'
update defaults set b = b + 1
select * from defaults where a = '1'
select cast(c + 0 as signed) from defaults
create table long_names (a long varbinary, b long varchar, c char(3) byte, d varchar(3) byte, e text byte, f char byte, g long byte, h long)
select column_name, column_type from information_schema.columns where table_name = 'long_names' and table_schema = database() order by ordinal_position
insert into long_names (c, d, g) values ('a', 'b', x'ff00')
select c, d, g from long_names
select column_name, column_default, numeric_precision, numeric_scale from information_schema.columns where table_name = 'defaults' and table_schema = database() order by ordinal_position
create table reals (a double, b double(10,2), c float, d float(7,3))
select numeric_precision, numeric_scale from information_schema.columns where table_name = 'reals' and table_schema = database() order by ordinal_position
drop table reals, bits, numbers, defaults, long_names
