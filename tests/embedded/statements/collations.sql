# A column that names no collation has its table's, also one that comes later.
create table m (id int) collate utf8mb4_bin
alter table m add s varchar(5), add t varchar(5) collate utf8mb4_general_ci, add (e enum('a','b'), x text), add j int
insert into m values (1, 'a', 'a', 'a', 'x', 1), (2, 'A', 'A', 'b', 'X', 1)
update m set s = 'z' where s = 'a'
update m set t = 'z' where t = 'a'
select id, s, t, e, x from m where x = 'x' order by id
~ counts of rows that are copied
alter table m modify s varchar(6), change t u varchar(6)
select s, u from m where s = 'Z' or u = 'Z'
select column_name, collation_name from information_schema.columns where table_name = 'm' and table_schema = database() order by ordinal_position
create table l like m
alter table l add z varchar(3), modify u varchar(7), modify x text collate utf8mb4_general_ci
select column_name, collation_name from information_schema.columns where table_name = 'l' and table_schema = database() order by ordinal_position
# options count wherever they are written
alter table l collate utf8mb4_unicode_ci, add a1 varchar(5)
alter table l add a2 varchar(5), collate utf8mb4_general_ci
alter table l default character set latin1
alter table l add a3 varchar(5)
alter table l collate latin1_bin default charset latin1
alter table l add a4 varchar(5), add a5 varchar(5) character set utf8mb4
alter table l collate latin1_bin charset utf8mb4
select column_name, collation_name from information_schema.columns where table_name = 'l' and table_schema = database() order by ordinal_position
# all columns
alter table l convert to character set utf8mb4 collate utf8mb4_bin, add a6 varchar(5), add a7 varchar(5) collate utf8mb4_general_ci
select column_name, collation_name from information_schema.columns where table_name = 'l' and table_schema = database() order by ordinal_position
create table k (a varchar(5), unique key (a)) collate utf8mb4_bin
insert into k values ('a'), ('A')
alter table k convert to character set utf8mb4 collate utf8mb4_general_ci
select a from k where a = 'a'
delete from k where a = 'A'
~ counts of rows that are copied
alter table k convert to character set utf8mb4 collate utf8mb4_general_ci
insert into k values ('A')
# text of the set binary is bytes
create table b (a varchar(5), t text, e enum('x','y')) character set binary
alter table b add c varchar(5), add d char(4)
select column_name, column_type, collation_name from information_schema.columns where table_name = 'b' and table_schema = database() order by ordinal_position
drop table m, l, k, b
