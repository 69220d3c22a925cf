# ANY, SOME, ALL: empty sets, NULL, correlated or not; what MariaDB answers wrongly is in test_embedded_quantifiers.py
create table qv (id int primary key, n int, s varchar(9), d date)
create table qm (id int primary key, v int, n int, s varchar(9), d date)
insert into qv values (1, 5, 'b', '2020-01-05'), (2, null, null, null), (3, 1, 'a', '2019-01-01'), (4, 9, 'Kb', '2026-02-02')
insert into qm values (1, 1, 3, 'a', '2020-01-01'), (2, 1, null, null, null), (3, 2, 4, 'b', '2021-01-01'), (4, 3, 1, 'a', null), (5, 3, 1, 'a', '2019-01-01')
select id, n > all (select n from qm where v = qv.id), n > any (select n from qm where v = qv.id), n >= some (select n from qm where v = qv.id) from qv order by id
select id, n = all (select n from qm where v = qv.id), n <> all (select n from qm where v = qv.id), n <> any (select n from qm where v = qv.id), n = some (select n from qm where v = qv.id) from qv order by id
select id, n > all (select n from qm), n < any (select n from qm), n <= all (select n from qm where n is not null) from qv order by id
select id, n > all (select n from qm where id < 0), n < any (select n from qm where id < 0), null > all (select n from qm where id < 0) from qv order by id
select id from qv where n > all (select n from qm where v = qv.id) order by id
select id from qv where not (n > all (select n from qm where v = qv.id)) order by id
select id from qv where (n > all (select n from qm where v = qv.id)) is unknown order by id
select id from qv where (n >= any (select n from qm where v = qv.id)) is not true order by id
select id from qv where d > all (select d from qm where s not in (qv.s, qm.s, 'x')) order by id
select id from qv where d >= all (select d from qm where v = qv.id) xor n > 4 order by id
select id from qv where s > any (select s from qm where v <> qv.id) order by id
select id from qv where n > all (select mod(qv.id, qm.n - 1) from qm) order by id
select id, n + 1 > all (select mod(qv.id, qm.n) from qm where qm.n is not null) from qv order by id
select id, case when n < all (select n from qm where v <> qv.id) then 'less' when n >= some (select n from qm where v = qv.id) then 'more' end x from qv order by id
select id from qv where n > all (select n, id from qm)
drop table qv, qm
