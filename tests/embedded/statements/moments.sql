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
