# Expressions without tables.
# A line beginning with ~ says why the next statement may answer differently.
~ MariaDB names NULL, TRUE and +3 in its own way
select 1, 1.5, 'a', null, true, 1e3, -5, - -5, +3
select 1+1, 1-2, 2*3, 1/3, 7/2, 7 div 2, -7 div 2, 7 mod 3, -7 % 3, 7.5 % 2, 1/0, 1 % 0, 5 div 0
select 1 | 2, 1 & 3, 5 ^ 1, ~0, ~5, 1 << 3, 16 >> 2, -1 >> 1, 1 | 2 & 0, 1 << 2 + 1, 2 + 3 ^ 1, -1 | 0
select 0.1+0.2 = 0.3, 0.1+0.2, 1.10*2.20, 10.5-0.25, 1.5/0.3, 2.50 + 1, round(2.5), round(-2.5), round(2.345,2), round(1234.5,-2), truncate(2.789,1), truncate(-2.789,1)
select '5' + 3, '5abc' + 1, 'abc' + 1, '1.5' * 2, '3' = 3, 'abc' = 0, '1e1' + 0, 'a' < 'b', 'a' = 'A', 'a' <=> null, null <=> null, 1 <=> 1
select 1 = 1, 1 <> 2, 1 != 1, 2 > 1, 2 >= 2, 1 between 0 and 2, 5 not between 1 and 4, 3 in (1,2,3), 3 not in (1,2), null in (1,2), 1 in (2,null)
select not 1, not 0, !1, 1 and 0, 1 or 0, 1 xor 1, 1 xor 0, null and 0, null or 1, null xor 1, not null
select 'abc' like 'A%', 'abc' like 'a_c', 'a%c' like 'a\%c', 'abc' like 'a|%c' escape '|', 'abc' not like 'b%', 'a\nb' like 'a%b', null like 'a'
select 'abc' regexp '^a', 'abc' rlike 'B', 'abc' not regexp 'z', 'aBc' regexp binary 'b'
select case 1 when 1 then 'one' else 'other' end, case when 1=2 then 'x' end, case when null then 1 else 2 end, if(null,1,2), ifnull(null,'d'), nullif(1,1), nullif(1,2), coalesce(null,null,3)
select concat('a','b',1,2.5,null), concat('a',1,2.50), concat_ws(',', 'a', null, 'b'), length('äb'), char_length('äb'), upper('äb'), lower('ÄB'), reverse('abc')
select left('hello',2), right('hello',3), substring('hello',2), substring('hello',2,3), substring('hello',-3), substring('hello',-3,2), substr('hello' from 2 for 2), mid('hello',1,2), substring('hello',0)
select lpad('5',3,'0'), rpad('5',3,'x'), lpad('hello',3,'0'), repeat('ab',3), space(3), replace('aabb','a','x'), insert('hello',2,2,'XX'), trim('  a '), ltrim('  a'), rtrim('a  '), trim(both 'x' from 'xxaxx'), trim(leading 'x' from 'xxaxx'), trim(trailing 'x' from 'xxaxx')
select locate('l','hello'), locate('l','hello',4), instr('hello','LL'), position('o' in 'hello'), field('b','a','b'), find_in_set('b','a,b,c'), elt(2,'a','b'), substring_index('a.b.c','.',2), substring_index('a.b.c','.',-1), strcmp('a','b'), ascii('a'), ord('ä'), char(65,66), hex('abc'), hex(255), unhex('616263'), bin(5), oct(8), conv('ff',16,10), quote("it's")
select md5('a'), sha1('a'), sha2('a',256), crc32('a'), to_base64('abc'), from_base64('YWJj'), soundex('Robert'), format(1234567.891,2)
~ MariaDB shows six decimals of PI()
select abs(-5), abs(-5.5), ceil(1.2), floor(-1.2), ceiling(5), sign(-3), sqrt(16), pow(2,10), power(2,0.5), exp(0), ln(1), log(2,8), log10(100), log2(8), pi(), mod(7,3), greatest(1,5,3), least(1,5,3), greatest('a','b'), radians(180), degrees(pi())
select date('2024-05-06 07:08:09'), time('2024-05-06 07:08:09'), year('2024-05-06'), month('2024-05-06'), day('2024-05-06'), dayofmonth('2024-05-06'), hour('10:11:12'), minute('10:11:12'), second('10:11:12'), quarter('2024-05-06'), week('2024-05-06'), weekday('2024-05-06'), dayofweek('2024-05-06'), dayofyear('2024-05-06'), dayname('2024-05-06'), monthname('2024-05-06'), last_day('2024-02-05'), to_days('2024-05-06'), from_days(739377), weekofyear('2024-05-06'), yearweek('2024-05-06')
~ MySQL writes all six decimals of 1.5 seconds
select date_add('2024-01-31', interval 1 month), date_sub('2024-03-31', interval 1 month), '2024-01-01' + interval 1 day, date_add('2024-01-01 10:00:00', interval 90 minute), date_add('2024-01-01', interval '1:30' hour_minute), date_add('2024-01-01', interval 1 microsecond), date_add('2024-01-01', interval 1.5 second), interval 1 day + '2024-01-01', adddate('2024-01-01', 31), subdate('2024-01-01', interval 1 week), date_add('2024-01-01', interval '1-2' year_month), date_add('2024-02-29', interval 1 year)
select timestampdiff(day,'2024-01-01','2024-02-01'), timestampdiff(month,'2024-01-31','2024-02-29'), timestampdiff(year,'2020-02-29','2024-02-28'), timestampdiff(second,'2024-01-01','2024-01-02'), timestampdiff(hour,'2024-01-02','2024-01-01'), datediff('2024-01-05','2024-01-01'), timediff('10:00:00','09:00:00'), timestampadd(minute,5,'2024-01-01 00:00:00'), period_add(202401,2), period_diff(202403,202401), makedate(2024,60), maketime(1,2,3), sec_to_time(3661), time_to_sec('01:01:01'), addtime('10:00:00','01:00:00'), subtime('2024-01-01 10:00:00','01:00:00')
select date_format('2024-05-06 17:08:09.123456','%Y-%m-%d %H:%i:%s.%f %W %M %j %y %c %e %D %p %l %r %T %a %b %h %k %U %u %V %v %X %x %w %%'), time_format('17:08:09','%H-%i-%s'), str_to_date('06/05/2024','%d/%m/%Y'), str_to_date('2024-05-06 10:11:12','%Y-%m-%d %H:%i:%s'), str_to_date('10:11','%H:%i'), unix_timestamp('2024-01-01 00:00:00'), from_unixtime(0), from_unixtime(1704067200,'%Y'), extract(year from '2024-05-06'), extract(year_month from '2024-05-06'), extract(day_hour from '2024-05-06 07:08:09')
select cast('12abc' as signed), cast(-1 as unsigned), cast(1.7 as signed), cast('2024-01-02' as date), cast('2024-01-02 03:04:05.678' as datetime(3)), cast('10:11:12' as time), cast(1.237 as decimal(5,2)), cast('abc' as char(2)), cast(123 as char), cast('1.5' as double), convert('123', signed), convert('abc' using utf8mb4), cast('ab' as binary(3)), cast(20240102 as date)
select json_extract('{"a": {"b": [1, 2]}}', '$.a.b[1]'), json_unquote(json_extract('{"a":"x"}','$.a')), json_object('a',1,'b','c'), json_array(1,'a',null), json_valid('{}'), json_valid('x'), json_length('[1,2,3]'), json_type('[]'), json_keys('{"a":1,"b":2}'), json_contains('[1,2]','1'), json_set('{"a":1}','$.b',2), json_remove('{"a":1,"b":2}','$.a'), json_quote('a"b'), json_extract('{"a":1}','$.zz'), json_replace('{"a":1}','$.a',5), json_insert('{"a":1}','$.a',5,'$.c','x'), json_depth('[[1]]')
select json_extract('{"a":"x"}','$.a') = 'x', json_extract('{"a":5}','$.a') = 5, json_extract('{"a":5}','$.a') > 4
select isnull(null), isnull(1), 1 is null, null is null, 1 is not null, 0 is false, 1 is true, null is unknown, 5 is true
select inet_aton('10.0.0.1'), inet_ntoa(167772161), bit_count(7), uuid() is not null, length(uuid()), char_length(space(5)), rand() between 0 and 1
~ in MariaDB x'41' is 0 as a number, in MySQL 65
select x'4142', 0x41, b'1000001', x'41' + 0, hex(x'00ff'), length(x'00ff'), concat('a', x'42')
~ names of literals side by side
select 'a' 'b', "double", 'it''s', 'back\\slash', 'tab\t.', 'nul\0x' = 'nul', 'per\%cent', char(10)
select date '2024-01-02', timestamp '2024-01-02 03:04:05', time '10:11:12', date '2024-01-02' + interval 1 day
select '2024-01-02' > '2024-01-01', date('2024-01-02') > '2024-01-01', date('2024-01-02') = '2024-01-02 00:00:00', cast('2024-01-02' as datetime) = '2024-01-02', date('2024-01-02') = 20240102, date('2024-01-02') between '2024-01-01' and '2024-01-03'
select now() > '2020-01-01', curdate() = date(now()), now() = current_timestamp, utc_timestamp() <= utc_timestamp(6), year(now()) > 2020, date(now()) + 0 > 20200101
select version() is not null, database() is not null, user() is not null, connection_id() > 0, last_insert_id(), row_count(), found_rows()
select (1,2) = (1,2), (1,2) in ((1,2),(3,4)), (1,2) < (1,3), row(1,2) = row(1,2)
select count(*), sum(1), avg(1), max(1), min('a')
select * from (select 1 as a, 'x' as b) t
select t.a, t.* from (select 1 as a union select 2 union all select 2) t order by 1 desc
~ no ORDER BY
select 1 union select 'a' union select null
select 1 as n union all select 2.5 union all select 3 order by n desc limit 2
(select 1 as a) union (select 2) order by a desc
select distinct a from (select 'a' as a union all select 'A' union all select 'b') t
with c as (select 1 as n union all select 2) select sum(n) from c
with recursive c(n) as (select 1 union all select n+1 from c where n < 5) select group_concat(n) from c
select exists(select 1), not exists(select 1 from dual where 0), (select 5), 5 = (select 5), 5 in (select 5 union select 6), 5 > all (select 1), 5 = any (select 5)
select 1 from dual where 1 = 0
select 1 limit 0
~ refused
select @x := 5
select @undefined
set @a = 1, @b = 'two', @c = 1.5
select @a, @b, @c, @a + 1
select 1 as `select`, 2 as 'quoted', 3 alias, 4 as "dq"
select if(1, 'a', 2), if(0, 1, 2.5), ifnull(1, 'x'), coalesce(null, 1.5, 2), case when 1 then 1 else 'a' end
select 10 / 4, 10 / 2.5, '10' / 4, 10.0 / 3, 1 / 3 * 3, (1/3) * 3, 100 * 1.1, 3 * 0.1
select 9223372036854775807, 9223372036854775808, 18446744073709551615, -9223372036854775808
select 9223372036854775807 + 1
~ .5 is named 0.5
select 1.0, 1.00, 100.0, .5, 1e0, 1.5e-10, 123456789012345678, 0.1e1, 1e20, 123456789.123456789
select cast(1 as double), cast(0.1 as double), 1e0/3, sqrt(2), 1e15, 1e16, 1e-5, 123456.789e0, 1.7976931348623157e308
select concat(1e0), concat(1.5e10), concat(1e20), concat(0.1e0+0.2e0), concat(1e0/3), concat(true), concat(1/3)
select length(1.50), concat(1.50+1), 1.50 = 1.5, '1.50' = 1.5, '1.50' = '1.5'
~ trailing spaces and accents, see docs/embedded.md
select strcmp('a','A'), 'a' = 'a ', 'a' like 'a ', binary 'a' = 'A', 'ä' = 'Ä', 'straße' = 'strasse', 'a' collate utf8mb4_bin = 'A'
select nope()
select count(distinct 1), group_concat('a' separator ';'), bit_or(5), bit_and(3), std(1), variance(1)
select 1 +
~ the table is looked up first
select from t
selec 1
select 'unclosed
select * from nope
select nope from dual
select cast(3 as unsigned) + -2, cast(0 as unsigned) * -2, cast(-1 as unsigned) - 1, ~0 - 1, cast(1 as unsigned) - 2.5, cast(1 as unsigned) - '2', -cast(1 as unsigned), -7 % cast(2 as unsigned), cast(9 as unsigned) div 2, cast(9 as unsigned) div 0, 18446744073709551615 - 1, cast(18446744073709551615 as signed), cast('-1' as unsigned), cast('99999999999999999999' as unsigned), 0x41 | 0 as h, 0x41 + 0 as i
select cast(1 as unsigned) - 2
select 1 - cast(2 as unsigned)
select -2 * cast(1 as unsigned)
select cast(-1 as unsigned) + 1
select abs(cast(1 as unsigned) - 2)
select -7 div cast(2 as unsigned)
select 9223372036854775808 - 9223372036854775809
select 0x01 - 2
# a number beyond 64 bits becomes the nearest that there is
select cast(99999999999999999999999.5 as signed), cast(-99999999999999999999999 as signed), cast(99999999999999999999999 as unsigned), cast(18446744073709551614.4 as unsigned), cast(9223372036854775808.0 as signed)
select cast('99999999999999999999999' as signed), cast('-99999999999999999999999' as signed), cast('18446744073709551614' as signed), cast('99999999999999999999999' as unsigned), cast('00000000000000000000000000000042x' as signed), cast('+7' as signed), cast('-' as signed)
select cast(-9999999999999999.5 as unsigned), cast(-99999999999999999999.5 as unsigned), cast(18446744073709551614 as signed)
select cast(-5.5e0 as unsigned), cast(-5 as unsigned), cast(-5.4 as unsigned), cast(1e30 as unsigned), cast(1e19 as unsigned), cast(-1e30 as unsigned), cast(1e19 as signed), cast(-1e30 as signed)
select cast(2.5 as signed), cast(-2.5 as signed), cast(2.5 as unsigned), cast(0.4 as unsigned), cast(-0.4 as unsigned), cast(null as unsigned), cast(null + 0.5 as signed)
select cast(2.5e0 as signed), cast(3.5e0 as signed), cast(-2.5e0 as signed), cast(2.5e0 as unsigned), cast(sqrt(6.25) as signed)
