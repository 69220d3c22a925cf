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
