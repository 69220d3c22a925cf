-- INSERT
INSERT INTO q (payload) VALUES ('a'), ('b')
--> Passthrough
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- INSERT without INTO, qualified
insert ignore other . q2 set payload = 'a'
--> Passthrough
--> effects.touched: other.q2
--> effects.tally: (other.q2, 'enqueued')

-- INSERT in a comment for some versions
INSERT /*!99999 DELAYED */ INTO `q` (payload) SELECT name FROM account
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- INSERT with ON DUPLICATE KEY UPDATE may change messages
INSERT INTO q (id, payload) VALUES (1, 'a') ON DUPLICATE KEY UPDATE time_acked = 1
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- REPLACE may end messages
REPLACE INTO q (id, payload) VALUES (1, 'a')
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- LOAD DATA
LOAD DATA LOCAL INFILE 'messages.csv' INTO TABLE q FIELDS TERMINATED BY ','
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- INSERT into another table
INSERT INTO account SELECT * FROM q
--> Passthrough

-- a queue of that name in another database
INSERT INTO elsewhere.q (payload) VALUES ('a')
--> Passthrough

-- no database
-- database: none
INSERT INTO q (payload) VALUES ('a')
--> Passthrough

-- a name outside ASCII
INSERT INTO größe (payload) VALUES ('a')
--> Passthrough
--> effects.touched: shop.größe
--> effects.tally: (shop.größe, 'enqueued')

-- TRUNCATE TABLE
TRUNCATE TABLE q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- DROP TABLE
DROP TABLE IF EXISTS account, q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- DROP TABLE, several
DROP TABLES `shop`.`q` , other CASCADE;
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- DROP TABLE, names that cannot be told
DROP TABLE account q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- DROP TABLE with a time limit
SET STATEMENT max_statement_time=5, sql_mode='FOR q' FOR DROP TABLE q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- TRUNCATE TABLE with a time limit
SET STATEMENT max_statement_time=5 FOR TRUNCATE TABLE shop.q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- CREATE OR REPLACE TABLE
CREATE OR REPLACE TABLE q (a INT)
--> Passthrough
--> effects.uncertain: shop.q
--> effects.removes: shop.q
--> effects.catalog: True

-- DROP TABLE of another, with the queue's name in it
DROP TABLE account /* not q */
--> Passthrough
--> effects.catalog: True

-- DROP TEMPORARY TABLE
DROP TEMPORARY TABLE q
--> Passthrough
--> effects.catalog: True

-- INSERT with a time limit
SET STATEMENT max_statement_time=5 FOR INSERT INTO q (payload) VALUES (1)
--> Passthrough
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- DROP DATABASE
DROP DATABASE shop
--> Passthrough
--> effects.catalog: True

-- ALTER TABLE
ALTER TABLE orders ADD COLUMN note TEXT
--> Passthrough
--> effects.catalog: True

-- ALTER TABLE of what cannot be served
ALTER TABLE broken ADD COLUMN time_acked BIGINT
--> Passthrough
--> effects.catalog: True

-- ALTER TABLE of another table
ALTER TABLE account ADD COLUMN note TEXT
--> Passthrough

-- RENAME TABLE
RENAME TABLE q TO q_old
--> Passthrough
--> effects.catalog: True

-- a Vitess table
CREATE TABLE m (id BIGINT PRIMARY KEY) COMMENT 'vitess_message,vt_ack_wait=30'
--> Passthrough
--> effects.catalog: True

-- another table
CREATE TABLE account (id BIGINT PRIMARY KEY)
--> Passthrough

-- BEGIN
BEGIN
--> Passthrough
--> effects.transaction: BEGIN

-- COMMIT
COMMIT
--> Passthrough
--> effects.transaction: COMMIT

-- ROLLBACK TO
ROLLBACK TO SAVEPOINT a
--> Passthrough
--> effects.transaction: ROLLBACK_TO

-- anything
SELECT 1
--> Passthrough

-- Vitess's first layout: what an INSERT leaves out is filled in
insert into my_message(id, message) values(1, 'hello world')
--> Execute
--> sql: insert into my_message(id, message, time_scheduled, time_next, epoch, time_created) values(1, 'hello world', (NOW_NS()), time_scheduled, 0, (NOW_NS()))
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout, several rows, some of them with parentheses and commas of their own
INSERT IGNORE INTO shop.my_message (`id`, my_message.message) VALUES (1, CONCAT('a', (SELECT 'b, c)'))), (?, ?) ;
--> Execute
--> sql: INSERT IGNORE INTO shop.my_message (`id`, my_message.message, time_scheduled, time_next, epoch, time_created) VALUES (1, CONCAT('a', (SELECT 'b, c)')), (NOW_NS()), time_scheduled, 0, (NOW_NS())), (?, ?, (NOW_NS()), time_scheduled, 0, (NOW_NS())) ;
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout, to be sent in the future
insert into my_message(id, message, time_scheduled) values(1, 'hello world', 2000000000000000000)
--> Execute
--> sql: insert into my_message(id, message, time_scheduled, time_next, epoch, time_created) values(1, 'hello world', 2000000000000000000, time_scheduled, 0, (NOW_NS()))
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout, with everything named
INSERT INTO my_message (time_scheduled, id, time_next, epoch, time_created, message) VALUES (1, 2, 3, 4, 5, 'm')
--> Passthrough
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout, SET and ON DUPLICATE KEY UPDATE
INSERT my_message SET id = 1, message = 'a' ON DUPLICATE KEY UPDATE message = 'b'
--> Execute
--> sql: INSERT my_message SET id = 1, message = 'a', time_scheduled = (NOW_NS()), time_next = time_scheduled, epoch = 0, time_created = (NOW_NS()) ON DUPLICATE KEY UPDATE message = 'b'
--> effects.touched: shop.my_message
--> effects.uncertain: shop.my_message

-- Vitess's first layout, VALUES and ON DUPLICATE KEY UPDATE
INSERT INTO my_message (id, message) VALUE (1, 'a') ON DUPLICATE KEY UPDATE message = VALUES(message), time_next = 0
--> Execute
--> sql: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUE (1, 'a', (NOW_NS()), time_scheduled, 0, (NOW_NS())) ON DUPLICATE KEY UPDATE message = VALUES(message), time_next = 0
--> effects.touched: shop.my_message
--> effects.uncertain: shop.my_message

-- Vitess's first layout, REPLACE
REPLACE INTO my_message (id, message) VALUES (1, 'a'), (2, 'b') RETURNING id
--> Execute
--> sql: REPLACE INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'a', (NOW_NS()), time_scheduled, 0, (NOW_NS())), (2, 'b', (NOW_NS()), time_scheduled, 0, (NOW_NS())) RETURNING id
--> effects.touched: shop.my_message
--> effects.uncertain: shop.my_message

-- Vitess's first layout without a list of columns
INSERT INTO my_message VALUES (1, 2, 3, 4, 5, NULL, 'm')
--> Passthrough
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout from a SELECT
INSERT INTO my_message (id, message) SELECT id, payload FROM account
--> Passthrough
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- Vitess's first layout, a fault that the database is to tell
INSERT INTO my_message (id, message VALUES (1, 'a')
--> Passthrough
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- every column named, as Spark's JDBC catalog does
INSERT INTO `shop`.`q` (`id`,`priority`,`time_next`,`state`,`payload`,`user_id`) VALUES (NULL,NULL,NULL,NULL,'NULL',NULL), (7, 1, null, NULL, CONCAT('a', NULL), 2)
--> Execute
--> sql: INSERT INTO `shop`.`q` (`id`,`priority`,`time_next`,`state`,`payload`,`user_id`) VALUES (DEFAULT,DEFAULT,DEFAULT,DEFAULT,'NULL',NULL), (7, 1, DEFAULT, DEFAULT, CONCAT('a', NULL), 2)
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- a NULL of a column of one's own, and of some columns only
INSERT INTO q (time_next, payload) VALUES (NULL, 'state')
--> Passthrough
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- a form sends back what a server calls the defaults
INSERT INTO `q` (`id`, `time_scheduled`, `time_next`, `payload`) VALUES (NULL, '(timestampdiff(MICROSECOND,\'1970-01-01\',utc_timestamp(6)) * 1000)', '`time_scheduled`', 'time_scheduled')
--> Execute
--> sql: INSERT INTO `q` (`id`, `time_scheduled`, `time_next`, `payload`) VALUES (NULL, DEFAULT, DEFAULT, 'time_scheduled')
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- later by a delay
INSERT INTO q (a) VALUES (1), (2) DELAY '20s';
--> Execute
--> sql: INSERT INTO q (a, time_scheduled, time_next) VALUES (1, (NOW_NS()) + 20000000000, time_scheduled), (2, (NOW_NS()) + 20000000000, time_scheduled)
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- later, by assignment, at a moment
INSERT INTO q SET a = 1 AT '2026-12-24 18:00'
--> Execute
--> sql: INSERT INTO q SET a = 1, time_scheduled = UNIX_TIMESTAMP('2026-12-24 18:00:00.000000') * 1000000000, time_next = time_scheduled
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')

-- replaced, at a moment
REPLACE INTO q (a) VALUES (1) AT "2026-12-24"
--> Execute
--> sql: REPLACE INTO q (a, time_scheduled, time_next) VALUES (1, UNIX_TIMESTAMP('2026-12-24 00:00:00.000000') * 1000000000, time_scheduled)
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- a delay in Vitess's first layout
INSERT INTO my_message (message) VALUES ('x') DELAY 5
--> Execute
--> sql: INSERT INTO my_message (message, time_scheduled, time_next, epoch, time_created) VALUES ('x', (NOW_NS()) + 5000000000, time_scheduled, 0, (NOW_NS()))
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')

-- a delay that is bound
INSERT INTO q (a) VALUES (?) DELAY ?
--> Rebind
--> sql: INSERT INTO q (a) VALUES (?) DELAY ?
--> parameters: 2
--> column: None

-- a delay without columns
INSERT INTO q VALUES (1) DELAY 5
--> error 1235 (42000): DELAY and AT follow INSERT INTO q (columns) VALUES (...), or INSERT INTO q SET column = value; not INSERT ... SELECT, nor an INSERT without a list of columns

-- a delay of a message that waits for a group
INSERT INTO q (a) VALUES (1) AFTER GROUP 7 OF parts DELAY 5
--> error 1235 (42000): INSERT ... AFTER GROUP into 'q' must give the message's id

-- a column called at, and its alias
INSERT INTO q (a) SELECT at 'x'
--> Passthrough
--> effects.touched: shop.q
--> effects.tally: (shop.q, 'enqueued')
