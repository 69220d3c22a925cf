create table w (id int primary key, dy date, ts datetime, tu datetime(3), tm time)
insert into w values (1, '2024-02-29', '2024-02-29 10:11:12', '2024-02-29 10:11:12.250', '10:11:12'), (2, '2023-12-31', '2023-12-31 23:59:59', '2023-12-31 23:59:59.999', '-00:30:00'), (3, null, null, null, null)
# with decimals of a second a moment is a number with decimals
select tu + 0, tu * 1, tu - 1, cast(tu as decimal(20,3)), cast(tu as signed), ts + 0, dy + 0, tm + 0 from w order by id
select sum(tu), avg(tu), sum(ts), avg(dy), sum(tm) from w
insert into w (id, tu, ts) values (4, 20240131101112.5, 20240131101112.4)
select tu, ts from w where id = 4
select tu > 20240101000000, tu = 20240229101112.25, tu + 0 > 20240101000000 from w order by id
# of a moment, a moment
select addtime(ts, '01:00:00'), subtime(tu, '01:00:00'), addtime(ts, '1:00.5'), addtime(tu, tm), addtime(tm, tm), subtime(tm, '12:00:00') from w order by id
select addtime(dy, '01:00:00'), addtime('10:00:00', '01:00:00'), addtime('2024-01-01 10:00:00', '01:00:00')  from w order by id
select timestamp(dy, '10:00:00'), timestamp(ts, '10:00:00'), timestamp(dy, tm) from w order by id
select convert_tz(ts, '+00:00', '+02:00'), convert_tz(tu, '+00:00', '+02:00'), convert_tz('2024-01-01 10:00:00', '+00:00', '+02:00') from w order by id
drop table w
# a TIME is stored with its own decimals; where a date is wanted it is of today
create table times (id int primary key, t time, t3 time(3), t6 time(6), dt datetime, i bigint, n decimal(20,6), f double, s varchar(20))
insert into times (id, t6) values (1, '00:00:00.101000'), (2, '-30:11:12.000000'), (3, '27:00:01.990000')
update times set t3 = t6
update times set t = '10:11:12', n = t6, f = t3, s = t3, i = t
select id, t, t3, t6, i, n, f, s from times order by id
update times set t = timediff('10:00:00', '09:30:00.000'), t6 = t where id = 1
update times set t = sec_to_time(61.0), t3 = sec_to_time(1.5), t6 = maketime(10, 11, 12.25) where id = 2
update times set t = cast('10:00:00' as time(3)), t3 = cast('-10:00:00.25' as time(6)), t6 = addtime(t, '1:00') where id = 3
insert into times (id, t, t3, t6) values (4, curtime(6), curtime(6), curtime()), (5, time(now(6)), utc_time(6), utc_time())
insert into times (id, dt) select 6, t from times where id = 1
select id, t, t3, t6, dt = concat(curdate(), ' ', t) from times where id < 4 order by id
select count(*) from times where t is not null and t3 is not null and t6 is not null
select dt = concat(curdate(), ' 00:30:00') from times where id = 6
~ counts of rows that are copied
alter table times modify t time(3), modify t3 time(6), modify n decimal(30,2)
select id, t, t3, t6, n from times where id < 4 order by id
select date(t) = curdate(), year(t6) = year(now()), month(t) = month(now()), dayofweek(t) = dayofweek(now()), last_day(t) = last_day(now()), week(t) = week(now()), to_days(t) = to_days(now()), quarter(t) = quarter(now()) from times where id = 1
select datediff(t6, now()), date_format(t6, '%H') = hour(t6), timestampdiff(second, t, t6), timestampdiff(hour, curdate(), t6), timestamp(t6) = concat(curdate(), ' ', t6), to_seconds(t6) - to_seconds(curdate()), cast(t6 as date) = curdate() from times where id = 1
select datediff('-30:00:00', t) is null, date(cast('-30:00:00' as time)) = curdate() - interval 2 day, unix_timestamp(cast('30:00:00.5' as time(1))) - unix_timestamp(curdate()) from times where id = 1
select t < dt, t6 = now() + interval 1 year, ifnull(t, dt) from times where id = 6
select id from times where t6 > now() - interval 10 day and id < 4 order by id
select cast(t3 as decimal(10,1)), cast(t3 as decimal(20,3)), cast(t3 as double), -t3, t3 + 0, t3 * 2 from times where id < 4 order by id
select extract(minute_second from t6), extract(second_microsecond from t6), extract(hour_minute from t6), extract(minute from t6) from times where id = 2
select maketime(10, 11, '12.5'), maketime(-1, 2, 3.25), timediff(cast('2024-01-01' as datetime), cast('1:00' as time))
drop table times
# The ends of the calendar, and those of TIMESTAMP
CREATE TABLE ends (id INT PRIMARY KEY AUTO_INCREMENT, t TIMESTAMP NULL, t3 TIMESTAMP(3) NULL, d DATETIME, d3 DATETIME(3))
INSERT INTO ends (t) VALUES ('1000-01-01')
INSERT INTO ends (t) VALUES ('2050-01-01')
INSERT INTO ends (t) VALUES ('2038-01-19 03:14:07'), ('1970-01-01 00:00:01')
INSERT INTO ends (t) VALUES ('2038-01-19 03:14:08')
INSERT INTO ends (t) VALUES ('1970-01-01 00:00:00')
INSERT INTO ends (t3) VALUES ('2038-01-19 03:14:07.999'), ('1970-01-01 00:00:01.000')
INSERT INTO ends (d) VALUES ('9999-12-31 23:59:59'), ('0001-01-01 00:00:00')
UPDATE ends SET t = d WHERE d IS NOT NULL
INSERT INTO ends (t) SELECT d FROM ends WHERE d IS NOT NULL
UPDATE ends SET t = '2050-01-01' WHERE id = 1
UPDATE ends SET t = CONCAT('2050', '-01-01') WHERE id = 1
CREATE TABLE late (t TIMESTAMP DEFAULT '2050-01-01')
SET time_zone = '+05:00'
INSERT INTO ends (t) VALUES ('2038-01-19 08:14:07'), ('1970-01-01 05:00:01')
INSERT INTO ends (t) VALUES ('2038-01-19 08:14:08')
INSERT INTO ends (t) VALUES ('1970-01-01 05:00:00')
INSERT INTO ends (t) VALUES ('0001-01-01 00:00:00')
INSERT INTO ends (t) VALUES ('9999-12-31 23:59:59')
SET time_zone = '-05:00'
INSERT INTO ends (t) VALUES ('2038-01-18 22:14:07')
INSERT INTO ends (t) VALUES ('2038-01-18 22:14:08')
INSERT INTO ends (t) VALUES ('9999-12-31 23:59:59')
SELECT * FROM ends ORDER BY id
SET time_zone = '+00:00'
SELECT ADDTIME('9999-12-31 23:59:59', '00:00:01'), SUBTIME('0001-01-01 00:00:00', '00:00:01')
SELECT TIMESTAMP('9999-12-31 23:59:59', '400:00:01')
SELECT CONVERT_TZ('9999-12-31 23:59:59','+00:00','+05:00'), CONVERT_TZ('0001-01-01 00:00:00','+05:00','+00:00')
SELECT WEEK('9999-12-31',3), YEARWEEK('9999-12-31',3), WEEKOFYEAR('9999-12-31'), WEEK('0001-01-01',0)
SELECT DATE_FORMAT('0001-01-01','%U %u %V %v %X %x'), DATE_FORMAT('9999-12-31','%U %u %V %v %X %x')
SELECT MAKETIME(10000000000000,0,0)
# ALTER TABLE changes a moment by the session's time zone
CREATE TABLE zoned (d DATETIME, t TIMESTAMP NULL)
INSERT INTO zoned VALUES ('2024-01-01 10:00:00', '2024-01-01 10:00:00')
SET time_zone = '+05:00'
~ALTER TABLE zoned MODIFY d TIMESTAMP NULL, MODIFY t DATETIME NULL
SELECT * FROM zoned
SET time_zone = '+00:00'
SELECT * FROM zoned
# STR_TO_DATE: spaces before every item, all letters, missing parts
SELECT STR_TO_DATE('May 1, 2013','%M %d,%Y'), STR_TO_DATE('01,5,2013','%d,%m,%Y'), STR_TO_DATE('a09:30:17','a%h:%i:%s'), STR_TO_DATE('a09:30:17','%h:%i:%s'), STR_TO_DATE('09:30:17a','%h:%i:%s'), STR_TO_DATE('abc','abc')
SELECT STR_TO_DATE('9','%m'), STR_TO_DATE('9','%s'), STR_TO_DATE('00/00/0000', '%m/%d/%Y'), STR_TO_DATE('200442 Monday', '%X%V %W'), STR_TO_DATE('200442', '%X%V'), STR_TO_DATE('2024-365','%Y-%j')
SELECT STR_TO_DATE('2024-366','%Y-%j'), STR_TO_DATE('2023-366','%Y-%j'), STR_TO_DATE('2024-0','%Y-%j'), STR_TO_DATE('2024-367','%Y-%j'), STR_TO_DATE('2024 60 5','%Y %j %m'), STR_TO_DATE('2024-1-5','%Y-%m-%j')
SELECT STR_TO_DATE('365','%j'), STR_TO_DATE('2024','%Y'), STR_TO_DATE('2024-05','%Y-%m'), STR_TO_DATE('05','%d'), STR_TO_DATE('14:00 PM','%h:%i %p'), STR_TO_DATE('14:00 PM','%H:%i %p')
SELECT STR_TO_DATE('12:00 AM','%h:%i %p'), STR_TO_DATE('12:00 PM','%h:%i %p'), STR_TO_DATE('1:00 PM','%h:%i %p'), STR_TO_DATE('0:00','%h:%i'), STR_TO_DATE('13:00','%h:%i'), STR_TO_DATE('12:30','%h:%i')
SELECT STR_TO_DATE('12:30','%I:%i'), STR_TO_DATE('1:00 pm','%l:%i %p'), STR_TO_DATE('1:00 XM','%l:%i %p'), STR_TO_DATE('1:00 P','%l:%i %p'), STR_TO_DATE('1:00','%l:%i %p'), STR_TO_DATE('10:11:12 PM','%r')
SELECT STR_TO_DATE('10:11:12PM','%r'), STR_TO_DATE('13:11:12 PM','%r'), STR_TO_DATE('22:11:12','%T'), STR_TO_DATE('22:11','%T'), STR_TO_DATE('24:11:12','%T'), STR_TO_DATE('2024-01-01 22:11:12','%Y-%m-%d %T')
SELECT STR_TO_DATE('2024-01-01 10:11:12 PM','%Y-%m-%d %r'), STR_TO_DATE('2024-01-01 22:11:12.123456','%Y-%m-%d %H:%i:%s.%f'), STR_TO_DATE('2024-01-01 22:11:12.1','%Y-%m-%d %H:%i:%s.%f'), STR_TO_DATE('2024-01-01 22:11:12.1234567','%Y-%m-%d %H:%i:%s.%f'), STR_TO_DATE('22:11:12.5','%T.%f'), STR_TO_DATE('24-1-1','%y-%m-%d')
SELECT STR_TO_DATE('70-1-1','%y-%m-%d'), STR_TO_DATE('69-1-1','%y-%m-%d'), STR_TO_DATE('24-1-1','%Y-%m-%d'), STR_TO_DATE('124-1-1','%Y-%m-%d'), STR_TO_DATE('5-1-1','%Y-%m-%d'), STR_TO_DATE('5-1-1','%y-%m-%d')
SELECT STR_TO_DATE('20240105','%Y%m%d'), STR_TO_DATE('202415','%Y%m%d'), STR_TO_DATE('240105','%y%m%d'), STR_TO_DATE('1st 5 2024','%D %m %Y'), STR_TO_DATE('2nd 5 2024','%D %m %Y'), STR_TO_DATE('2xx 5 2024','%D %m %Y')
SELECT STR_TO_DATE('2 5 2024','%D %m %Y'), STR_TO_DATE('11th May 2024','%D %M %Y'), STR_TO_DATE('11 may 2024','%d %M %Y'), STR_TO_DATE('11 May 2024','%d %b %Y'), STR_TO_DATE('11 Jan 2024','%d %M %Y'), STR_TO_DATE('11 January 2024','%d %b %Y')
SELECT STR_TO_DATE('11 Sept 2024','%d %M %Y'), STR_TO_DATE('11 Ju 2024','%d %M %Y'), STR_TO_DATE('11 J 2024','%d %M %Y'), STR_TO_DATE('11 Foo 2024','%d %M %Y'), STR_TO_DATE('11January2024','%d%M%Y'), STR_TO_DATE('11Jan2024','%d%b%Y')
SELECT STR_TO_DATE('Monday 2024-01-01','%W %Y-%m-%d'), STR_TO_DATE('Tuesday 2024-01-01','%W %Y-%m-%d'), STR_TO_DATE('Mon 2024-01-01','%a %Y-%m-%d'), STR_TO_DATE('Mon 2024-01-01','%W %Y-%m-%d'), STR_TO_DATE('Xon 2024-01-01','%W %Y-%m-%d'), STR_TO_DATE('Monday 2024-01-01','%a %Y-%m-%d')
SELECT STR_TO_DATE('1 2024-01-01','%w %Y-%m-%d'), STR_TO_DATE('7 2024-01-01','%w %Y-%m-%d'), STR_TO_DATE('2024 10 1','%Y %U %w'), STR_TO_DATE('2024 10 1','%Y %u %w'), STR_TO_DATE('2024 10 Monday','%Y %u %W'), STR_TO_DATE('2024 10 0','%Y %u %w')
SELECT STR_TO_DATE('2024 10 0','%Y %U %w'), STR_TO_DATE('2024 10 1','%X %V %w'), STR_TO_DATE('2024 10 1','%x %v %w'), STR_TO_DATE('2024 10 1','%X %v %w'), STR_TO_DATE('2024 10 1','%Y %V %w'), STR_TO_DATE('2024 10 1','%x %U %w')
SELECT STR_TO_DATE('2024 54 1','%Y %U %w'), STR_TO_DATE('2024 53 1','%Y %U %w'), STR_TO_DATE('2024 0 1','%Y %U %w'), STR_TO_DATE('2024 0 1','%X %V %w'), STR_TO_DATE('2024 10','%Y %U'), STR_TO_DATE('Mon 10 2024','%a %u %Y')
SELECT STR_TO_DATE('2020 53 0','%x %v %w'), STR_TO_DATE('2021 01 1','%x %v %w'), STR_TO_DATE('50%2024','%i%%%Y'), STR_TO_DATE('50%2024-01-01','%i%%%Y-%m-%d'), STR_TO_DATE('  2024-01-01','%Y-%m-%d'), STR_TO_DATE('2024- 01 - 01','%Y-%m-%d')
SELECT STR_TO_DATE('2024-01-01  ','%Y-%m-%d'), STR_TO_DATE('2024-01-01x','%Y-%m-%d'), STR_TO_DATE('2024-01-01 10:00','%Y-%m-%d'), STR_TO_DATE('2024-01-01','%Y-%m-%d %H:%i'), STR_TO_DATE('2024-01-01 10','%Y-%m-%d %H:%i:%s'), STR_TO_DATE('2024-01-01 10:','%Y-%m-%d %H:%i:%s')
SELECT STR_TO_DATE('2024-01-01 ','%Y-%m-%d%H'), STR_TO_DATE('2024/01/01','%Y-%m-%d'), STR_TO_DATE('2024 01 01','%Y%m%d'), STR_TO_DATE('x2024-01-01','x%Y-%m-%d'), STR_TO_DATE('at 2024-01-01','at %Y-%m-%d'), STR_TO_DATE('at2024-01-01','at %Y-%m-%d')
SELECT STR_TO_DATE('AT 2024-01-01','at %Y-%m-%d'), STR_TO_DATE('2024--01-01','%Y-%m-%d'), STR_TO_DATE('2024.01,01','%Y%.%m%.%d'), STR_TO_DATE('abc2024-01-01','%@%Y-%m-%d'), STR_TO_DATE('xx2024','%#%Y'), STR_TO_DATE('12abc2024-01-01','%d%@%Y-%m-%d')
SELECT STR_TO_DATE('2024-01-01 10:61','%Y-%m-%d %H:%i'), STR_TO_DATE('2024-01-01 25:00','%Y-%m-%d %H:%i'), STR_TO_DATE('2024-13-01','%Y-%m-%d'), STR_TO_DATE('2024-00-10','%Y-%m-%d'), STR_TO_DATE('2024-01-00','%Y-%m-%d'), STR_TO_DATE('10:20','%H:%i')
SELECT STR_TO_DATE('10','%H'), STR_TO_DATE('10','%k'), STR_TO_DATE('5','%l'), STR_TO_DATE('5','%i'), STR_TO_DATE('.5','.%f'), STR_TO_DATE('PM','%p')
SELECT STR_TO_DATE('May','%M'), STR_TO_DATE('May','%b'), STR_TO_DATE('1st','%D'), STR_TO_DATE('3','%e'), STR_TO_DATE('3','%c'), STR_TO_DATE('3','%w')
SELECT STR_TO_DATE('Monday','%W'), STR_TO_DATE('10','%U'), STR_TO_DATE('10','%u'), STR_TO_DATE('10','%V'), STR_TO_DATE('10','%v'), STR_TO_DATE('2024','%X')
SELECT STR_TO_DATE('2024','%x'), STR_TO_DATE('24','%y'), STR_TO_DATE('','%Y'), STR_TO_DATE('2024-01-01',''), STR_TO_DATE('',''), STR_TO_DATE('2024-01-01','%Y-%m-%d%')
SELECT STR_TO_DATE('2024-01-01%','%Y-%m-%d%'), STR_TO_DATE('q2024-01-01','%q%Y-%m-%d'), STR_TO_DATE('2024-01-01 2025','%Y-%m-%d %Y'), STR_TO_DATE('2024-01-01 5','%Y-%m-%d %d'), STR_TO_DATE('2024-01-01 10:00:00 AM','%Y-%m-%d %H:%i:%s %p'), STR_TO_DATE('2024-05-07 1:02:03 PM','%Y-%m-%d %h:%i:%s %p')
SELECT STR_TO_DATE('2024-05-07 101112','%Y-%m-%d %H%i%s'), STR_TO_DATE('20240507101112','%Y%m%d%H%i%s'), STR_TO_DATE(20240507,'%Y%m%d'), STR_TO_DATE('0000-00-00','%Y-%m-%d'), STR_TO_DATE('31/12/99','%d/%m/%y'), STR_TO_DATE('2024-06-15 12','%Y-%m-%d %h')
SELECT STR_TO_DATE('2024-06-15 12 AM','%Y-%m-%d %h %p'), STR_TO_DATE('PM 3','%p %h'), STR_TO_DATE('2024-06-15T10:11:12Z','%Y-%m-%dT%H:%i:%sZ'), STR_TO_DATE('2024-06-15T10:11:12','%Y-%m-%dT%T'), STR_TO_DATE('Thu, 01 Jan 1970 00:00:00 GMT','%a, %d %b %Y %H:%i:%s GMT')
SELECT STR_TO_DATE('10:3','%l:%d'), STR_TO_DATE('11 17:5','%I %d:%i'), STR_TO_DATE('23 02','%e %S')
CREATE TABLE read_as (d DATE, t TIME, m DATETIME)
INSERT INTO read_as VALUES (STR_TO_DATE('May 1, 2013','%M %d,%Y'), STR_TO_DATE('1:02 PM','%h:%i %p'), STR_TO_DATE('2024-365 10','%Y-%j %H'))
INSERT INTO read_as (d) VALUES (STR_TO_DATE('bad','%Y-%m-%d'))
INSERT INTO read_as (d) VALUES (STR_TO_DATE('2024','%Y'))
INSERT INTO read_as (d) VALUES (STR_TO_DATE('2024-01-01x','%Y-%m-%d'))
INSERT INTO read_as (t) VALUES (STR_TO_DATE('14:00 PM','%h:%i %p'))
SELECT * FROM read_as
