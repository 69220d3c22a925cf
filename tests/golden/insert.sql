-- INSERT
INSERT INTO q (payload) VALUES ('a'), ('b')
--> pass through
--> touched shop.q

-- INSERT without INTO, qualified
insert ignore other . q2 set payload = 'a'
--> pass through
--> touched other.q2

-- INSERT in a comment for some versions
INSERT /*!99999 DELAYED */ INTO `q` (payload) SELECT name FROM account
--> pass through
--> touched shop.q

-- INSERT with ON DUPLICATE KEY UPDATE may change messages
INSERT INTO q (id, payload) VALUES (1, 'a') ON DUPLICATE KEY UPDATE time_acked = 1
--> pass through
--> touched shop.q
--> uncertain shop.q

-- REPLACE may end messages
REPLACE INTO q (id, payload) VALUES (1, 'a')
--> pass through
--> touched shop.q
--> uncertain shop.q

-- LOAD DATA
LOAD DATA LOCAL INFILE 'messages.csv' INTO TABLE q FIELDS TERMINATED BY ','
--> pass through
--> touched shop.q
--> uncertain shop.q

-- INSERT into another table
INSERT INTO account SELECT * FROM q
--> pass through

-- a queue of that name in another database
INSERT INTO elsewhere.q (payload) VALUES ('a')
--> pass through

-- no database
-- database: none
INSERT INTO q (payload) VALUES ('a')
--> pass through

-- a name outside ASCII
INSERT INTO größe (payload) VALUES ('a')
--> pass through
--> touched shop.größe

-- TRUNCATE TABLE
TRUNCATE TABLE q
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- DROP TABLE
DROP TABLE IF EXISTS account, q
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- DROP TABLE, several
DROP TABLES `shop`.`q` , other CASCADE;
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- DROP TABLE, names that cannot be told
DROP TABLE account q
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- DROP TABLE with a time limit
SET STATEMENT max_statement_time=5, sql_mode='FOR q' FOR DROP TABLE q
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- TRUNCATE TABLE with a time limit
SET STATEMENT max_statement_time=5 FOR TRUNCATE TABLE shop.q
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- CREATE OR REPLACE TABLE
CREATE OR REPLACE TABLE q (a INT)
--> pass through
--> uncertain shop.q
--> removes shop.q
--> catalog

-- DROP TABLE of another, with the queue's name in it
DROP TABLE account /* not q */
--> pass through
--> catalog

-- DROP TEMPORARY TABLE
DROP TEMPORARY TABLE q
--> pass through
--> catalog

-- INSERT with a time limit
SET STATEMENT max_statement_time=5 FOR INSERT INTO q (payload) VALUES (1)
--> pass through
--> touched shop.q

-- DROP DATABASE
DROP DATABASE shop
--> pass through
--> catalog

-- ALTER TABLE
ALTER TABLE orders ADD COLUMN note TEXT
--> pass through
--> catalog

-- ALTER TABLE of what cannot be served
ALTER TABLE broken ADD COLUMN time_acked BIGINT
--> pass through
--> catalog

-- ALTER TABLE of another table
ALTER TABLE account ADD COLUMN note TEXT
--> pass through

-- RENAME TABLE
RENAME TABLE q TO q_old
--> pass through
--> catalog

-- a Vitess table
CREATE TABLE m (id BIGINT PRIMARY KEY) COMMENT 'vitess_message,vt_ack_wait=30'
--> pass through
--> catalog

-- another table
CREATE TABLE account (id BIGINT PRIMARY KEY)
--> pass through

-- BEGIN
BEGIN
--> pass through
--> transaction begin

-- COMMIT
COMMIT
--> pass through
--> transaction commit

-- ROLLBACK TO
ROLLBACK TO SAVEPOINT a
--> pass through
--> transaction rollback to

-- anything
SELECT 1
--> pass through

-- Vitess's first layout: what an INSERT leaves out is filled in
insert into my_message(id, message) values(1, 'hello world')
--> execute: insert into my_message(id, message, time_scheduled, time_next, epoch, time_created) values(1, 'hello world', (NOW_NS()), time_scheduled, 0, (NOW_NS()))
--> touched shop.my_message

-- Vitess's first layout, several rows, some of them with parentheses and commas of their own
INSERT IGNORE INTO shop.my_message (`id`, my_message.message) VALUES (1, CONCAT('a', (SELECT 'b, c)'))), (?, ?) ;
--> execute: INSERT IGNORE INTO shop.my_message (`id`, my_message.message, time_scheduled, time_next, epoch, time_created) VALUES (1, CONCAT('a', (SELECT 'b, c)')), (NOW_NS()), time_scheduled, 0, (NOW_NS())), (?, ?, (NOW_NS()), time_scheduled, 0, (NOW_NS())) ;
--> touched shop.my_message

-- Vitess's first layout, to be sent in the future
insert into my_message(id, message, time_scheduled) values(1, 'hello world', 2000000000000000000)
--> execute: insert into my_message(id, message, time_scheduled, time_next, epoch, time_created) values(1, 'hello world', 2000000000000000000, time_scheduled, 0, (NOW_NS()))
--> touched shop.my_message

-- Vitess's first layout, with everything named
INSERT INTO my_message (time_scheduled, id, time_next, epoch, time_created, message) VALUES (1, 2, 3, 4, 5, 'm')
--> pass through
--> touched shop.my_message

-- Vitess's first layout, SET and ON DUPLICATE KEY UPDATE
INSERT my_message SET id = 1, message = 'a' ON DUPLICATE KEY UPDATE message = 'b'
--> execute: INSERT my_message SET id = 1, message = 'a', time_scheduled = (NOW_NS()), time_next = time_scheduled, epoch = 0, time_created = (NOW_NS()) ON DUPLICATE KEY UPDATE message = 'b'
--> touched shop.my_message
--> uncertain shop.my_message

-- Vitess's first layout, VALUES and ON DUPLICATE KEY UPDATE
INSERT INTO my_message (id, message) VALUE (1, 'a') ON DUPLICATE KEY UPDATE message = VALUES(message), time_next = 0
--> execute: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUE (1, 'a', (NOW_NS()), time_scheduled, 0, (NOW_NS())) ON DUPLICATE KEY UPDATE message = VALUES(message), time_next = 0
--> touched shop.my_message
--> uncertain shop.my_message

-- Vitess's first layout, REPLACE
REPLACE INTO my_message (id, message) VALUES (1, 'a'), (2, 'b') RETURNING id
--> execute: REPLACE INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'a', (NOW_NS()), time_scheduled, 0, (NOW_NS())), (2, 'b', (NOW_NS()), time_scheduled, 0, (NOW_NS())) RETURNING id
--> touched shop.my_message
--> uncertain shop.my_message

-- Vitess's first layout without a list of columns
INSERT INTO my_message VALUES (1, 2, 3, 4, 5, NULL, 'm')
--> pass through
--> touched shop.my_message

-- Vitess's first layout from a SELECT
INSERT INTO my_message (id, message) SELECT id, payload FROM account
--> pass through
--> touched shop.my_message

-- Vitess's first layout, a fault that the database is to tell
INSERT INTO my_message (id, message VALUES (1, 'a')
--> pass through
--> touched shop.my_message

-- every column named, as Spark's JDBC catalog does
INSERT INTO `shop`.`q` (`id`,`priority`,`time_next`,`state`,`payload`,`user_id`) VALUES (NULL,NULL,NULL,NULL,'NULL',NULL), (7, 1, null, NULL, CONCAT('a', NULL), 2)
--> execute: INSERT INTO `shop`.`q` (`id`,`priority`,`time_next`,`state`,`payload`,`user_id`) VALUES (DEFAULT,DEFAULT,DEFAULT,DEFAULT,'NULL',NULL), (7, 1, DEFAULT, DEFAULT, CONCAT('a', NULL), 2)
--> touched shop.q

-- a NULL of a column of one's own, and of some columns only
INSERT INTO q (time_next, payload) VALUES (NULL, 'state')
--> pass through
--> touched shop.q

-- a form sends back what a server calls the defaults
INSERT INTO `q` (`id`, `time_scheduled`, `time_next`, `payload`) VALUES (NULL, '(timestampdiff(MICROSECOND,\'1970-01-01\',utc_timestamp(6)) * 1000)', '`time_scheduled`', 'time_scheduled')
--> execute: INSERT INTO `q` (`id`, `time_scheduled`, `time_next`, `payload`) VALUES (NULL, DEFAULT, DEFAULT, 'time_scheduled')
--> touched shop.q

-- later by a delay
INSERT INTO q (a) VALUES (1), (2) DELAY '20s';
--> execute: INSERT INTO q (a, time_scheduled, time_next) VALUES (1, (NOW_NS()) + 20000000000, time_scheduled), (2, (NOW_NS()) + 20000000000, time_scheduled)
--> touched shop.q

-- later, by assignment, at a moment
INSERT INTO q SET a = 1 AT '2026-12-24 18:00'
--> execute: INSERT INTO q SET a = 1, time_scheduled = UNIX_TIMESTAMP('2026-12-24 18:00:00.000000') * 1000000000, time_next = time_scheduled
--> touched shop.q

-- replaced, at a moment
REPLACE INTO q (a) VALUES (1) AT "2026-12-24"
--> execute: REPLACE INTO q (a, time_scheduled, time_next) VALUES (1, UNIX_TIMESTAMP('2026-12-24 00:00:00.000000') * 1000000000, time_scheduled)
--> touched shop.q
--> uncertain shop.q

-- a delay in Vitess's first layout
INSERT INTO my_message (message) VALUES ('x') DELAY 5
--> execute: INSERT INTO my_message (message, time_scheduled, time_next, epoch, time_created) VALUES ('x', (NOW_NS()) + 5000000000, time_scheduled, 0, (NOW_NS()))
--> touched shop.my_message

-- a delay that is bound
INSERT INTO q (a) VALUES (?) DELAY ?
--> plan again with 2 values

-- a delay without columns
INSERT INTO q VALUES (1) DELAY 5
--> error 1235 (42000): DELAY and AT follow INSERT INTO q (columns) VALUES (...), or INSERT INTO q SET column = value; not INSERT ... SELECT, nor an INSERT without a list of columns

-- a delay of a message that waits for a group
INSERT INTO q (a) VALUES (1) AFTER GROUP 7 OF parts DELAY 5
--> error 1235 (42000): INSERT ... AFTER GROUP into 'q' must give the message's id

-- a column called at, and its alias
INSERT INTO q (a) SELECT at 'x'
--> pass through
--> touched shop.q
