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
# BIT and binary text in text functions are bytes
create table octets (id int primary key, b bit(10), b1 bit(1), vb varbinary(10))
insert into octets values (1, 65, 1, x'0041'), (2, 1, 0, 'abc'), (3, null, null, null)
select concat(b), concat(b1, 'x'), hex(b), hex(b1), length(b), length(b1), char_length(b), bit_length(b) from octets order by id
select concat_ws('-', b, 'x'), reverse(b), ascii(b), ord(b), instr(b, 'A'), b like '%A', replace(b, 'A', 'B'), to_base64(b), lpad(b, 4, 'x'), rpad(b, 4, 'x'), md5(b), crc32(b) from octets order by id
select insert(b, 1, 1, 'z'), repeat(b, 2), quote(b), trim(b), lower(b), substring_index(b, 'A', 1), elt(1, b), find_in_set(b, 'a,b'), strcmp(b, 'a'), left(b, 1), soundex(b) from octets where id < 3 order by id
select b + 0, b = 65, b = 'A', bin(b), oct(b), b | 1, cast(b as unsigned), cast(b as char) from octets order by id
select concat_ws('-', vb, 'x'), reverse(vb), ascii(vb), ord(vb), instr(vb, 'A'), replace(vb, 'A', 'B'), lpad(vb, 4, 'x'), rpad(vb, 4, 'x') from octets order by id
select insert(vb, 1, 1, 'z'), repeat(vb, 2), quote(vb), trim(vb), lower(vb), substring_index(vb, 'A', 1), elt(1, vb), find_in_set(vb, 'a,abc'), strcmp(vb, 'a'), trim(leading 'a' from vb) from octets where id < 3 order by id
select elt(2, 'a', 1.50), elt(1, 7)
drop table octets
