# Queries, types, metadata, session statements.
# A line beginning with ~ says why the next statement may answer differently.
create table p (id int auto_increment primary key, name varchar(30), parent int, val decimal(8,3), j json, at datetime(6), flag tinyint(1) default 0, foreign key (parent) references p (id) on delete set null)
insert into p (name, parent, val, j, at, flag) values ('root', null, 1.234, '{"a": [1, {"b": "x"}]}', '2024-01-01 00:00:00.123456', true), ('kid', 1, 2, '[]', '2024-01-02', false), ('kid2', 1, -3.5, null, null, 1)
select * from p
delete from p where id = 1
select id, parent from p
insert into p (id, name) values (1, 'again')
insert into p (name) values ('d') on duplicate key update name = 'e'
~ MariaDB does not know it
insert into p (id, name) values (1, 'n') as new on duplicate key update name = concat(new.name, p.name)
insert into p (name) values ('later') delay
insert into p (name) values ('later'), ('too') at on duplicate key update name = 'e'
insert into p set name = 'later' delay
replace into p (name) values ('later') 'x'
insert into p (name) values ('later') (name)
select count(*) from p
insert into p (id, name) values (1, 'v') on duplicate key update id = last_insert_id(id), name = values(name)
select last_insert_id()
update p set id = last_insert_id(id + 100) where id = 2
select last_insert_id()
select last_insert_id(77)
select last_insert_id()
select count(*) from p where flag
select count(*) from p where not flag
select count(*) from p where flag = true
~ MariaDB does not know it
select id from p where j->'$.a' is not null
~ MariaDB does not know it
select j->>'$.a[1].b' from p where j is not null order by id limit 1
select json_extract(j, '$.a[0]') as x from p order by id limit 1
select name from p where name = 'V' and name <> 'x' and name in ('v', 'w')
select coalesce(val, 0) + 1, ifnull(val, 'none'), if(val > 0, 'pos', 'neg') from p order by id
select case when val is null then 'null' when val > 1 then 'big' else 'small' end as size_, count(*) from p group by size_ order by size_
select name as n from p where val = 2.000
select val from p where val = '2'
select val from p where val in (2, -3.5) order by val
select sum(val), avg(val), min(val), max(val), count(val) from p
select sum(val) from p where id > 1000
select round(avg(val), 2), floor(sum(val)), sum(val * 2), sum(val) / 3 from p
select at, date(at), time(at), at + interval 1 second, unix_timestamp('2024-01-01 00:00:01') from p where at is not null order by at
select year(at), month(at), date_format(at, '%Y/%m'), extract(hour from at) from p where at is not null order by at
select at from p where at between '2024-01-01' and '2024-01-01 12:00:00'
select at from p where at = '2024-01-02 00:00:00'
select at from p where date(at) = '2024-01-01'
select timestampdiff(microsecond, '2024-01-01', at) from p where at is not null order by at
select name, length(name), left(name, 2), concat(name, '-', id) from p order by id
select name from p order by name desc
select name from p order by length(name), name
select name from p order by rand() limit 0
select name from p order by field(name, 'kid', 'v'), id
select upper(name) as name from p order by name
select distinct parent is null from p order by 1
select parent, group_concat(name order by id) from p group by parent order by parent
select count(*) from p a cross join p b
select a.name, b.name from p a, p b where a.parent = b.id
select a.name from p a left join p b on a.parent = b.id where b.id is null order by a.id
select a.name, b.name from p a right join p b on a.parent = b.id order by b.id
select a.name, b.name from p a straight_join p b on a.parent = b.id order by b.id
select count(*) from p a straight_join p b
update p a straight_join p b force index (primary) on a.parent = b.id set a.val = b.val + 1
select id, val from p order by id
select (select max(id) from p) - (select min(id) from p)
select id from p where id = (select max(id) from p)
select id from p where exists (select 1 from p q where q.parent = p.id)
select id from p where (id, name) in (select id, name from p where id > 2) order by id
select id from p where id not in (select parent from p where parent is not null) order by id
select x.c from (select count(*) as c from p) as x where x.c > 0
select t.name from (select name, val from p where val is not null union all select 'lit', 9.9) t order by t.val
with w as (select id, name from p where id > 1), y as (select count(*) c from w) select w.name, y.c from w, y order by w.id
with recursive tree as (select id, name, 0 as lvl from p where parent is null union all select p.id, p.name, lvl + 1 from p join tree on p.parent = tree.id) select name, lvl from tree order by lvl, id
select name, val, sum(val) over (order by id rows between unbounded preceding and current row) from p order by id
select name, dense_rank() over (order by val desc), first_value(name) over (order by id), count(*) over () from p order by id
~ MariaDB does not know LEAD with a default
select name, ntile(2) over (order by id), lead(name, 1, 'none') over (order by id) from p order by id
update p set val = val + 1, flag = val > 2 where val is not null
select id, val, flag from p order by id
update p set name = upper(name), val = null where name like 'k%' limit 1
update p a join (select parent, count(*) c from p group by parent) x on a.id = x.parent set a.val = x.c
update p set val = default
update p set at = now() where id = 1
select at > '2024-01-01' from p where id = 1
update p, (select 1 as one) z set p.flag = z.one where p.id = 1
delete a from p a left join p b on a.parent = b.id where b.id is null and a.name = 'nobody'
delete p1, p2 from p p1 join p p2 on p1.id = p2.id where p1.name = 'd'
select count(*) from p
create table k (a int, b int, c varchar(5), primary key (a, b), unique (c))
insert into k values (1, 1, 'x'), (1, 2, 'y')
insert into k values (1, 1, 'z')
insert into k values (2, 2, 'X')
insert into k values (2, 2, null), (3, 3, null)
insert into k values (1, 1, 'q') on duplicate key update c = 'new'
replace into k values (1, 1, 'y')
select * from k order by a, b
update k set a = 1 where a = 2
update k set b = b + 1 order by b desc
select * from k order by a, b
insert into k select a + 10, b, concat(c, 'q') from k where c is not null
insert into k (a, b) select a, b from k on duplicate key update b = values(b) + 100
select * from k order by a, b
insert ignore into k select a, b, c from k
create table s (id bigint unsigned primary key auto_increment, v varchar(10) character set utf8mb4 collate utf8mb4_bin, w char(5), x text, y longblob, z double, q smallint unsigned not null default 7, r date default '2024-01-01', t timestamp default current_timestamp on update current_timestamp)
insert into s (v, w, x, y, z) values ('Aa', 'ab   ', 'long text', 'blob', 1.5e10)
insert into s (v) values ('aA')
insert into s (v) values ('trail  ')
select v, w, length(w), x, y, z, q, r from s
select v from s where v = 'aa'
select v from s where v = 'Aa'
select count(distinct v), min(v), max(v) from s
select v from s order by v
select concat(w, '|'), concat(v, 1, z, q, r) from s where id = 1
select t is not null from s limit 1
insert into s (q) values (-1)
insert into s (q) values (70000)
insert into s (q) values (null)
insert into s (w) values ('toolong')
insert into s (r) values ('2024-1-5'), ('20240106'), ('2024/01/07')
select r from s where r > '2024-01-04' order by r
select r + interval 1 month, date_add(r, interval -1 day), datediff(r, '2024-01-01'), r = '2024-01-05', dayname(r) from s where r > '2024-01-04' order by r
select * from s where nope = 1
select s.nope from s
select v from s where x.y = 1
select count(nope) from s
select v from s order by nope
select v from s group by nope
insert into s (v) values (nope)
update s set v = nope
delete from s where nope
alter table s add unique (q)
alter table s add index (nope)
alter table s add primary key (v)
alter table s alter column q set default 9
alter table s alter q drop default
insert into s (v) values ('nodef')
~ MariaDB tells how many rows it copied
alter table s add constraint chk1 check (q < 1000)
alter table s add column after_v int after v, add column first_ int first
select first_, id, v, after_v from s order by id limit 1
alter table s drop column after_v, drop column first_
alter table s rename to s2
select count(*) from s2
alter table s2 comment = 'hello'
select table_comment from information_schema.tables where table_name = 's2'
alter table s2 auto_increment = 1000
insert into s2 (v, q) values ('thousand', 5)
select max(id) from s2
create unique index ux on s2 (v)
insert into s2 (v, q) values ('thousand', 6)
drop index ux on s2
alter table s2 drop primary key
create table nn (a int not null, b varchar(5) not null default '')
insert into nn (b) values ('x')
insert into nn (a) values (null)
insert into nn (a, b) values (1, null)
insert into nn (a) values (1), (null)
insert into nn (a, b) select 1, null
insert into nn values (1, default)
update nn set a = null
select * from nn
set @n = 5
select * from nn where a < @n
prepare st from 'select a + ? as r from nn where a = ?'
execute st using @n, @n
set @one = 1
execute st using @n, @one
deallocate prepare st
execute st using @n
do 1 + 1
set @x = (select max(a) from nn)
select @x
select sql_calc_found_rows a from k order by a, b limit 2
select found_rows()
select a from k order by a limit 3
select found_rows()
lock tables k write
insert into k values (900, 1, 'lk')
unlock tables
select a from k where a = 900 for update
select a from k where a = 900 lock in share mode
~ the plan is SQLite's
explain select 1
~ the name of the database
analyze table k
~ the name of the database
check table k
show create database nope
use nope
set nope = 1
set global nope = 1
set @@session.sql_mode = 'nonsense'
set autocommit = 'x'
call nope()
~ answered by the proxy
kill 999999
xyz
select 1;
SELECT /* comment */ 1 -- trailing
select 1 # hash
/*!40101 set @old = 1 */
~ white space in the name
select /*!50000 1 + */ 1
select * from information_schema.nope
select schema_name from information_schema.schemata where schema_name = 'information_schema'
select column_name, ordinal_position, is_nullable, data_type, column_key, extra from information_schema.columns where table_name = 'nn' order by ordinal_position
~ MariaDB adds a check to JSON columns
select constraint_name, constraint_type from information_schema.table_constraints where table_name = 'p' order by 1
select index_name, seq_in_index, column_name, non_unique from information_schema.statistics where table_name = 'k' order by index_name, seq_in_index
select table_name from information_schema.tables where table_schema = database() and table_name like 'k%'
create table uns (u int unsigned, s int, y year, b bit(8), d decimal(8,2) unsigned, f double unsigned)
insert into uns values (1, -5, 2024, b'11', 1.5, 1.5)
select u - s, -u, u - 1.5, u - d, d - 2, f - 2, u * 5, u + u, y + 1, b * 2, s % u, u % -2, u div -2, u div 0, u - null, sum(u) - 3, count(*) - 3 from uns
select y - 3000 from uns
select b - 300 from uns
select s div u from uns
select 1 from uns where s + u < 5
select if(u > 5, u - 5, 5 - u) from uns
select max(u) - 3 from uns
update uns set s = u - 2
drop table uns
# HAVING by an alias that GROUP BY names
create table hv (id int primary key, s varchar(9), i int)
insert into hv values (1, 'a', 1), (2, 'b', 5), (3, 'b', 7), (4, null, 2)
select s as x, count(*) from hv group by x having x > 'a' order by x
select s as i, count(*) from hv group by i having i > 3 order by 1, 2
select id % 3 as m, sum(i) as n from hv group by m having m = 1 and n > 0
select mid('abcdef', -3), mid('abcdef', 2, 3)
drop table hv
