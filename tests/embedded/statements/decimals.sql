create table wide (id int primary key, a decimal(30,10), b decimal(65,0), c decimal(65,30), p decimal(10,2), q int, f double)
insert into wide values (1, 12345678901234567890.0123456789, 99999999999999999999999999999999999999999999999999999999999999999, 12345678901234567890123456789012345.123456789012345678901234567890, 99999999.99, 2147483647, 0.5), (2, -0.0000000001, -1, 0.000000000000000000000000000001, -0.01, -3, -2), (3, null, 0, 0, 0, 0, 0)
select id, a + 1, a - 1, a * 2, -a, abs(a), sign(a) from wide order by id
select id, a / 3, b / 7, a / p, p / q, q / 3, 1 / q, p / 0 from wide order by id
select id, a * a, a + p, a - q, p * p, p * q, p + q from wide order by id
select id, a % 7, mod(a, p), q % 2.5, a div 3, p div 2 from wide where id > 1 order by id
select id, round(a), round(a, 3), round(a, -3), truncate(a, 5), truncate(a, -2), floor(a), ceil(a) from wide order by id
select sum(a), avg(a), min(a), max(a), count(distinct a), sum(distinct a) from wide
select sum(p), avg(p), sum(p * q), avg(q), sum(q) + 1, sum(a * p) from wide
select q % 2, sum(a + p), avg(p) from wide group by q % 2 order by 1
select id, sum(a) over (order by id), avg(p) over (order by id) from wide order by id
select id, a > p, a = 0, a < b, p * 3 = p + p + p, a between -1 and 1, a in (0, 1.5) from wide order by id
select id from wide where a order by id
select id from wide where a + 1 order by id
select id, if(a, 'yes', 'no'), case when p then 1 else 0 end, not a, a and 1 from wide order by id
select id, coalesce(a, 0), ifnull(a, p), greatest(a, p), least(a, q), nullif(a, p) from wide order by id
select id, cast(a as signed), cast(p * q as char), concat(a / 3), cast('12345678901234567890.55' as decimal(30,1)) from wide where id > 1 order by id
select id, cast(a as decimal(40,2)), cast(p as decimal(5,1)), cast(q as decimal(20,5)), cast(f as decimal(30,4)) from wide order by id
select 0.1 + 0.2, 0.1 + 0.2 = 0.3, 1.10 * 3, 12345678901234567890 + 0.5, 1 / 3, 1 / 3 * 3, 2 / 3 * 3 = 2, 10 / 4
select 1/3 union select 0.3333
select distinct p / 3 from wide order by 1
select 123456789012345678901234567890.5 * 2, 1e2 * 1.5, 1.5 + '1', 99999999999999999.5 > 99999999999999999
update wide set p = p / 3, a = a + 1
select id, a, p from wide order by id
update wide set p = q / 7 where id = 2
select id, a, p from wide order by id
insert into wide (id, a, p) select id + 10, a / 3, p / 3 from wide
select id, a, p from wide order by id
select a * 1.5e0 > 0, f * p, f + a > 0 from wide where id = 2
select (select sum(a) from wide) - (select max(a) from wide)
select x + 1 from (select sum(p) x from wide) t
select * from wide where a * 2 > p order by id
select id from wide order by a * -1, id
drop table wide
# what is larger than any DECIMAL, or than any number
select cast('1e400' as decimal(30,2)), cast('-1e400' as decimal(30,2)), cast('1e90' as decimal(65,0))
select cast('1e99999999999' as decimal(30,2)), cast('1e99999999999999999999' as decimal(30,2))
select cast('1e-400' as decimal(30,2)), cast('-1e-99999999999999999999' as decimal(5,2)), cast('0e99999999999999999999' as decimal(30,2))
select cast(1e300 as decimal(20,0)), cast(-1e300 as decimal(10,2)), cast(1e300 as decimal(40,10))
select cast(99.995 as decimal(4,2)), cast(-99.995 as decimal(4,2)), cast(99.994 as decimal(4,2)), cast(0.999 as decimal(2,2))
select cast(12345678901234567890123456789012345678901234567890 as decimal(40,5)), cast('99.999999999999999999999999999995' as decimal(31,29))
select cast('1e999' + 0 as decimal(10,2)), cast('-1e999' + 0 as decimal(30,2))
select cast('1e999' + 0 as signed), cast('-1e999' + 0 as signed), cast('1e999' + 0 as unsigned), cast('-1e999' + 0 as unsigned)
select cast(1e300 as signed), cast(-1e300 as signed), cast(1e300 as unsigned), cast(-9223372036854775808.4 as signed)
