# Tables: definitions, changes, queries, transactions.
# A line beginning with ~ says why the next statement may answer differently.
create table t1 (id int not null auto_increment primary key, name varchar(20) not null, n int, d decimal(10,2) default 1.5, created datetime default current_timestamp, unique key uq (name), key ix (n, d))
insert into t1 (name, n) values ('a', 1)
insert into t1 (name, n) values ('b', 2), ('c', 3)
insert into t1 (name, n) values ('a', 9)
insert into t1 (name) values (null)
insert into t1 (n) values (1)
insert into t1 (id, name) values (10, 'j')
insert into t1 (name) values ('k')
select last_insert_id()
~ a note for the cut decimal
insert into t1 values (null, 'l', 5, 2.345, '2024-01-01')
~ a note for the cut decimal
insert into t1 values (0, 'm', 5, 2.355, '2024-01-01 10:11:12')
insert into t1 set name = 'n', n = 1 + 1
insert into t1 (name, n) select concat(name, '2'), n * 2 from t1 where id < 3
select id, name, n, d from t1 order by id
update t1 set n = n + 1 where name = 'a'
update t1 set n = 2 where name = 'a'
update t1 set name = 'A' where name = 'a'
update t1 set n = 100, d = n where id = 1
select id, name, n, d from t1 where id = 1
update t1 set n = 5 order by id desc limit 2
update t1 set name = 'b' where id = 3
update t1 set nope = 1
update nope set a = 1
update t1 set name = null where id = 1
delete from t1 where n = 5
delete from t1 where id > 100
delete from t1 order by id limit 1
select count(*) from t1
replace into t1 (id, name, n) values (2, 'bb', 22)
~ InnoDB leaves gaps in AUTO_INCREMENT
replace into t1 (name, n) values ('bb', 23)
replace into t1 (id, name, n) values (500, 'new', 1), (2, 'xx', 3)
~ InnoDB leaves gaps in AUTO_INCREMENT
insert into t1 (name, n) values ('bb', 1) on duplicate key update n = n + 10
insert into t1 (name, n) values ('bb', 1) on duplicate key update n = n
insert into t1 (name, n) values ('zz', 1) on duplicate key update n = values(n) + 1
~ InnoDB leaves gaps in AUTO_INCREMENT
insert into t1 (name, n) values ('zz', 7), ('yy', 8) on duplicate key update n = values(n)
insert ignore into t1 (name, n) values ('zz', 7), ('ww', 8)
~ MariaDB leaves the table out of key names
show warnings
select name, n from t1 order by name
insert into t1 (name) values ('123456789012345678901')
insert into t1 (name, n) values ('ok', 'abc')
insert into t1 (name, n) values ('ok', '12abc')
insert into t1 (name, n) values ('ok', 99999999999)
insert into t1 (name, d) values ('ok', 123456789.99)
~ a note for the cut decimal
insert into t1 (name, d) values ('ok', 99999999.994)
insert into t1 (name, created) values ('ok2', 'garbage')
insert into t1 (name, created) values ('ok2', '2024-02-30')
insert into t1 (name, n) values ('dup', 1), ('dup', 2)
insert into t1 (name, n) values ('x1', 1, 2)
insert into t1 (name, name) values ('x1', 'x2')
insert into t1 (name, nope) values ('x1', 'x2')
insert into t1 () values ()
select name from t1 where name = 'OK'
select n, count(*), sum(d), avg(d), min(name), max(name) from t1 group by n order by n
select n, count(*) as c from t1 group by n having c > 1 order by c desc, n
select name as nm, upper(name) from t1 where n is not null order by nm limit 3
~ InnoDB leaves gaps in AUTO_INCREMENT
select t1.name, x.name from t1 join t1 x on t1.id = x.id + 1 order by t1.id
select a.id, b.id from t1 a left join t1 b on b.id = a.id + 1000 order by a.id limit 3
~ InnoDB leaves gaps in AUTO_INCREMENT
select * from t1 where id in (select id from t1 where n > 5) order by id limit 2
select id, (select count(*) from t1 b where b.id < a.id) as rank_ from t1 a order by id limit 4
select id from t1 where (select count(*) from t1) > 3 order by id limit 1
select (select id from t1)
select distinct n from t1 order by n
select count(distinct n), count(n), count(*) from t1
select name from t1 where name like 'z%' or name between 'w' and 'x' order by 1
select id from t1 where id = '2'
select id from t1 where name = 0 order by id limit 1
select sum(n) / count(*), avg(n), sum(n) div 2 from t1
select max(created) <= now() from t1 where created <= now()
select d * 2, d + n, d / 2, -d, round(d, 1), d % 2, d = 1.5, d > n from t1 where n is not null order by id limit 2
create table t2 (a int primary key, b int, constraint fk foreign key (b) references t1 (id) on delete cascade)
insert into t2 values (1, 99999)
insert into t2 values (1, 500)
update t2 set b = 12345
delete from t1 where id = 500
select * from t2
create table t3 (a int primary key, b int, foreign key (b) references t1 (id))
insert into t3 values (1, 2)
delete from t1 where id = 2
update t1 set id = 3000 where id = 2
~ 1451 in MariaDB, 3730 in MySQL 8
drop table t1
insert into t3 values (1, 2)
update t1 join t3 on t1.id = t3.b set t1.n = 777 where t3.a = 1
select n from t1 where id = 2
delete t3 from t3 join t1 on t1.id = t3.b where t1.n = 777
select count(*) from t3
alter table t1 add column extra varchar(10) not null default 'x' after name
select id, name, extra from t1 order by id limit 2
alter table t1 modify extra varchar(50) null
~ 1292 in MariaDB, 1366 in MySQL
alter table t1 change extra renamed int
alter table t1 drop column extra
alter table t1 drop column renamed
alter table t1 add index i2 (n), add unique index u2 (id, name)
alter table t1 drop index i2
alter table t1 drop index nope
alter table t1 rename column n to nn
select nn from t1 limit 1
alter table nope add column a int
create table t1 (a int)
create table if not exists t1 (a int)
drop table nope
drop table if exists nope
create table bad (a int, a int)
create table bad (a int primary key, b int primary key)
create table bad (a int auto_increment)
create table bad (a int, key k (zz))
create table bad (a varchar(10) default 'abcdefghijklm')
create table bad (a int default 'x')
create table bad (a decimal(70,2))
create table bad (a datetime(9))
create table chk (a int check (a > 0), b int, constraint c2 check (b < 10))
~ 4025 in MariaDB, 3819 in MySQL
insert into chk values (0, 1)
~ 4025 in MariaDB, 3819 in MySQL
insert into chk values (1, 100)
insert into chk values (1, 1)
insert into chk (a) values (null)
create table gen (a int, b int as (a * 2) stored, c int generated always as (a + 1) virtual)
insert into gen (a) values (5)
~ 1906 in MariaDB, 3105 in MySQL
insert into gen (a, b) values (5, 1)
insert into gen values (6, default, default)
select * from gen
update gen set a = 7 where a = 5
select * from gen order by a
create table en (e enum('x','y','Z'), s varchar(3) default 'abc', b bit(4), y year, ti tinyint unsigned, f float, db double, ts timestamp null)
insert into en values ('y', 'q', b'101', 2024, 255, 1.1, 1.1, '2024-01-01 00:00:00')
insert into en (e) values ('z'), (2)
insert into en (e) values ('bad')
insert into en (ti) values (256)
insert into en (ti) values (-1)
insert into en (y) values (1800)
insert into en (b) values (b'11111')
select e, s, b, y, ti, f, db, ts from en order by e desc
select e + 0, f * 2, ti + 1 from en where e = 'y'
select f = 1.1, db = 1.1 from en where e = 'y' limit 1
create table bin_ (a varbinary(10), b binary(4), c blob, d text collate utf8mb4_bin)
insert into bin_ values ('abc', 'ab', x'00ff', 'Aa')
select a, b, length(b), hex(c), d from bin_ where a = 'abc'
select * from bin_ where a = 'ABC'
select d = 'aa', d = 'Aa', d like 'aa' from bin_
create table tm (a time, b time(3), c date, d datetime(3))
insert into tm values ('-10:11:12', '100:00:00.1239', '24-1-2', '2024-01-02 03:04:05.6789')
insert into tm values ('12', '1 10:00', 20240102, 20240102030405)
~ MariaDB cuts fractions of seconds, MySQL rounds
select * from tm
~ MariaDB cuts fractions of seconds, MySQL rounds
select a < '00:00:00', b > a, c = d, d > c, time_to_sec(a), hour(b), c + interval 1 day, d - interval 1 hour from tm
~ MariaDB cuts fractions of seconds, MySQL rounds
select * from tm where c = '2024-01-02' and d >= '2024-01-02'
truncate table tm
select count(*) from tm
rename table tm to tm2
select count(*) from tm
create table copy1 like t1
insert into copy1 (name) values ('first')
select id, name from copy1
create table copy2 as select id, name, 1 as one, 'x' as x from t1 where id < 5
select * from copy2
create view v1 as select id, upper(name) as un from t1 where id < 20
~ InnoDB leaves gaps in AUTO_INCREMENT
select * from v1 order by id
select count(*) from v1 where un like 'B%'
drop view v1
select * from v1
create temporary table tmp1 (a int)
insert into tmp1 values (1), (2)
~ MariaDB cuts fractions of seconds, MySQL rounds
select * from tmp1
update tmp1 set a = a + 1
drop table tmp1
~ MariaDB cuts fractions of seconds, MySQL rounds
select * from tmp1
begin
insert into copy1 (name) values ('intx')
savepoint s1
insert into copy1 (name) values ('insp')
rollback to savepoint s1
release savepoint s1
rollback to savepoint s1
commit
select name from copy1 order by id
start transaction read only
insert into copy1 (name) values ('ro')
rollback
create index ci on copy1 (n)
select id, name from copy1 where name > 'a' order by name desc, id limit 1, 2
select group_concat(name order by name desc separator '|') from copy1
select group_concat(distinct nn order by nn) from t1
select row_number() over (order by id) r, sum(nn) over (partition by nn order by id) s, rank() over (order by nn), lag(id) over (order by id) from t1 order by r limit 4
select id from t1 union select a from t2 union all select 5 order by 1 limit 5
select json_extract('{"a": 1}', '$.a') + 1
select t1.id from t1, t2 where t1.id = t2.a
select * from t1 natural join copy1 limit 1
select id from t1 join copy1 using (id) order by id limit 2
select ID, Name from t1 order by Id limit 1
select id as i from t1 order by i + 1 limit 1
select id + 1 as id from t1 order by id limit 2
select nn from t1 group by nn order by count(*) desc, nn limit 2
select max(id) from t1 where id > 100000
select name from t1 where id = 2 for update
select t1.* from t1 where t1.nope = 1
select nope.* from t1
select id, id from t1 order by id limit 1
select * from (select id, id from t1) x
~ 1064 in MariaDB, 1248 in MySQL
select * from (select 1)
select id from t1 a join t1 b on a.id = b.id
select count(*) from t1 where nn = null
select sum(nn) from t1 having sum(nn) > 100000
insert into copy1 (name) select name from copy1
insert into nope values (1)
~ display widths
desc t2
~ display widths
show columns from t2
~ the name of the database
show tables
~ display widths
show create table t2
~ the last columns differ
show index from t3
