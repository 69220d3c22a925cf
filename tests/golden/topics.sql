-- CREATE TOPIC
CREATE TOPIC t (user_id BIGINT, body VARCHAR(200))
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), user_id BIGINT, body VARCHAR(200), KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,queuegate_table=t'
--> effects.catalog: True

-- CREATE TOPIC with keys, checks and a trailing comma
create topic if not exists other.t (user_id BIGINT NOT NULL, body JSON CHECK (body <> ''), KEY (user_id), UNIQUE KEY once (user_id, body(9)),);
--> Execute
--> sql: CREATE TABLE IF NOT EXISTS `other`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), user_id BIGINT NOT NULL, body JSON CHECK (body <> ''), KEY (user_id), UNIQUE KEY once (user_id, body(9)), KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,queuegate_table=t'
--> effects.catalog: True

-- CREATE TOPIC of no columns
CREATE TOPIC `a b` ()
--> Execute
--> sql: CREATE TABLE `shop`.`a b` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), KEY queuegate_time (time_created), CONSTRAINT `a b_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,queuegate_table=a%20b'
--> effects.catalog: True

-- CREATE TOPIC without a list of columns
CREATE TOPIC t
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (CREATE TOPIC needs columns: CREATE TOPIC orders (user_id BIGINT, body JSON))

-- CREATE TOPIC with an option that there is not
CREATE TOPIC t (body TEXT) WITH (retention = '7d')
--> error 1231 (42000): unknown topic option 'retention'; did you mean retain? allowed: compact, compact_after, partition, retain, retain_bytes, retain_rows, sequence, trace, trace_keep

-- CREATE TOPIC with options
CREATE TOPIC t (body TEXT) WITH (retain = '7d', retain_rows = 1e6, retain_bytes = '1.5G')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), body TEXT, KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,retain=604800s,retain_rows=1000000,retain_bytes=1610612736,queuegate_table=t'
--> effects.catalog: True

-- CREATE TOPIC with numbers
CREATE TOPIC t (body TEXT) WITH (sequence = 'on')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), body TEXT, queuegate_seq BIGINT NULL INVISIBLE, UNIQUE KEY queuegate_seq (queuegate_seq), KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,sequence=on,queuegate_table=t'
--> effects.catalog: True

-- CREATE TOPIC with a column that is called as that of numbers
CREATE TOPIC t (Queuegate_Seq INT)
--> error 1235 (42000): Column 'Queuegate_Seq' is one of the topic's or its groups' own; leave it out

-- CREATE TOPIC with numbers that is compacted
CREATE TOPIC t (k INT) WITH (sequence = 'on', compact = 'k')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), k INT, queuegate_seq BIGINT NULL INVISIBLE, UNIQUE KEY queuegate_seq (queuegate_seq), KEY queuegate_time (time_created), KEY queuegate_compact (`k`, queuegate_seq), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,compact=k,sequence=on,queuegate_table=t'
--> effects.catalog: True

-- ALTER TOPIC that gives numbers to a topic with groups
ALTER TOPIC orders SET (sequence = 'on')
--> error 1235 (42000): sequence: with it the offsets of a topic are numbers, and without it ids, so its consumer groups have to be made anew; DROP GROUP them first: audit, billing

-- INSERT that gives a number
INSERT INTO orders (user_id, queuegate_seq) VALUES (1, 2)
--> error 1235 (42000): the proxy gives a topic's messages their numbers; leave queuegate_seq out: 'orders'

-- INSERT that gives a number where there is one already
INSERT INTO orders (user_id) VALUES (1) ON DUPLICATE KEY UPDATE `queuegate_seq` = 2
--> error 1235 (42000): the proxy gives a topic's messages their numbers; leave queuegate_seq out: 'orders'

-- UPDATE that gives a number
UPDATE orders AS o SET o.body = 'queuegate_seq', o.queuegate_seq = NULL
--> error 1235 (42000): the proxy gives a topic's messages their numbers; leave queuegate_seq out: 'orders'

-- UPDATE by a number
UPDATE orders SET body = 'queuegate_seq' WHERE queuegate_seq = 2
--> Passthrough
--> effects.touched: shop.orders
--> effects.uncertain: shop.orders

-- ALTER TOPIC
ALTER TOPIC orders SET (retain = '12h', retain_rows = DEFAULT)
--> Execute
--> sql: ALTER TABLE `shop`.`orders` COMMENT='queuegate_topic,retain=43200s,queuegate_table=orders'
--> effects.catalog: True

-- CREATE TOPIC that is compacted
CREATE TOPIC t (`user id` INT, body TEXT) WITH (compact = 'User id', compact_after = '1h')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), `user id` INT, body TEXT, KEY queuegate_time (time_created), KEY queuegate_compact (`User id`, id), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,compact=User%20id,compact_after=3600s,queuegate_table=t'
--> effects.catalog: True

-- CREATE TOPIC that is compacted by what is not there
CREATE TOPIC t (user_id INT, body TEXT) WITH (compact = 'user')
--> error 1231 (42000): compact: 'user' is not a column of the topic

-- CREATE TOPIC that is compacted by what has no index
CREATE TOPIC t (user_id INT, body TEXT) WITH (compact = 'body')
--> error 1231 (42000): compact: 'body' is of a type that has no whole index; make it VARCHAR or a number

-- ALTER TOPIC to be compacted
ALTER TOPIC orders SET (compact = 'user_id')
--> Execute
--> sql: ALTER TABLE `shop`.`orders` ADD KEY queuegate_compact (`user_id`, id), COMMENT='queuegate_topic,compact=user_id,queuegate_table=orders'
--> effects.catalog: True

-- ALTER TOPIC not to be compacted
ALTER TOPIC orders SET (compact = DEFAULT)
--> Execute
--> sql: ALTER TABLE `shop`.`orders` COMMENT='queuegate_topic,queuegate_table=orders'
--> effects.catalog: True

-- ALTER TOPIC with a lag and nothing to compact by
ALTER TOPIC orders SET (compact_after = 5)
--> error 1231 (42000): compact_after is of use only with compact = 'column'

-- CREATE TOPIC with partitions
CREATE TOPIC t (body TEXT) WITH (retain = '7d', partition = '1d')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), body TEXT, KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,retain=604800s,partition=86400s,queuegate_table=t' PARTITION BY RANGE (id) (PARTITION `p10000` VALUES LESS THAN (10000), PARTITION `p20000` VALUES LESS THAN (20000), PARTITION `p30000` VALUES LESS THAN (30000), PARTITION `p40000` VALUES LESS THAN (40000), PARTITION `p80000` VALUES LESS THAN (80000), PARTITION `p240000` VALUES LESS THAN (240000), PARTITION `p880000` VALUES LESS THAN (880000), PARTITION `p3440000` VALUES LESS THAN (3440000), PARTITION `p13680000` VALUES LESS THAN (13680000), PARTITION `pmax` VALUES LESS THAN (MAXVALUE))
--> effects.catalog: True
--> partitions.topic: shop.t
--> partitions.create: True

-- CREATE TOPIC with partitions and a foreign key
CREATE TOPIC t (user_id INT, FOREIGN KEY (user_id) REFERENCES users (id)) WITH (retain = '7d', partition = '1d')
--> error 1235 (42000): partition: a table with partitions has no foreign keys; leave these out, or the option

-- CREATE TOPIC with partitions of which none would be dropped
CREATE TOPIC t (body TEXT) WITH (partition = '1d')
--> error 1231 (42000): partition is of use only with retain, retain_rows or retain_bytes: nothing is dropped else

-- ALTER TOPIC to other partitions
ALTER TOPIC orders SET (retain = '7d', partition = '1h')
--> Execute
--> sql: ALTER TABLE `shop`.`orders` COMMENT='queuegate_topic,retain=604800s,partition=3600s,queuegate_table=orders'
--> effects.catalog: True
--> partitions.topic: shop.orders
--> partitions.create: False

-- ALTER TOPIC without a list
ALTER TOPIC orders RETAIN 7
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'RETAIN 7' at line 1 (ALTER TOPIC t takes SET (option = value, ...))

-- ALTER TOPIC of a queue
ALTER TOPIC jobs SET (retain = '12h')
--> error 1235 (42000): 'jobs' is a queue, not a topic

-- CREATE GROUP with a filter
CREATE GROUP large ON orders WITH (filter = 'user_id > 100 AND body LIKE ''a%''')
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_large
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: large
--> options.filter: user_id > 100 AND body LIKE 'a%'
--> start.start: LATEST
--> check: SELECT 1 FROM `shop`.`orders` WHERE (`user_id` > 100 AND `body` LIKE 'a%') LIMIT 0

-- CREATE GROUP with a filter on what a topic does not have
CREATE GROUP large ON orders WITH (filter = 'epoch > 1')
--> error 1054 (42S22): Unknown column 'epoch' in 'where clause'

-- ALTER GROUP that gives a filter
ALTER GROUP billing ON orders SET (filter = 'user_id = 1')
--> Execute
--> sql: ALTER TABLE `shop`.`orders_group_billing` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,topic=orders,consumer_group=billing,filter=user_id%20%3D%201,queuegate_table=orders_group_billing'
--> effects.catalog: shop.orders_group_billing
--> check: SELECT 1 FROM `shop`.`orders` WHERE (`user_id` = 1) LIMIT 0
--> manages.topic: shop.orders
--> manages.group: billing

-- ALTER QUEUE of a group's queue that gives a wrong filter
ALTER QUEUE orders_group_billing SET (filter = 'user_id = 1)')
--> error 1064 (42000): You have an error in your SQL syntax near ')' in the WHERE of a stream

-- CREATE GROUP for which its topic keeps what it has not done
CREATE GROUP slow ON orders WITH (retain = 'until_consumed')
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_slow
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: slow
--> options.retain: until_consumed
--> start.start: LATEST

-- CREATE TOPIC with a comment
CREATE TOPIC t (body TEXT) COMMENT 'mine'
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'COMMENT 'mine'' at line 1 (after the columns: WITH (option = value, ...))

-- CREATE TOPIC with a name that no table can have
CREATE TOPIC `t ` (body TEXT)
--> error 1103 (42000): Incorrect table name 't '

-- CREATE TOPIC without a database
-- database: none
CREATE TOPIC t (body TEXT)
--> error 1046 (3D000): No database selected

-- CREATE TOPIC of a long name
CREATE TOPIC a234567890123456789012345678901234567890123456789012345678901234 (body TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`a234567890123456789012345678901234567890123456789012345678901234` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), body TEXT, KEY queuegate_time (time_created), CONSTRAINT `a23456789012345678901234567890123456789012_chk_d882fd43_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,queuegate_table=a234567890123456789012345678901234567890123456789012345678901234'
--> effects.catalog: True

-- a topic has no priorities
CREATE TOPIC t (body TEXT, Priority TINYINT)
--> error 1235 (42000): a topic is a log and has no priorities; call the column something else, or use a queue

-- a column of the topic's own
CREATE TOPIC t (body TEXT, ID BIGINT)
--> error 1235 (42000): Column 'ID' is one of the topic's or its groups' own; leave it out

-- a column of the topic's own, in back-quotes
CREATE TOPIC t (`time_created` BIGINT)
--> error 1235 (42000): Column 'time_created' is one of the topic's or its groups' own; leave it out

-- a column of the groups' own
CREATE TOPIC t (body TEXT, time_acked BIGINT)
--> error 1235 (42000): Column 'time_acked' is one of the topic's or its groups' own; leave it out

-- a column of a seek's own
CREATE TOPIC t (queuegate_sought INT)
--> error 1235 (42000): Column 'queuegate_sought' is one of the topic's or its groups' own; leave it out

-- a column that is the primary key
CREATE TOPIC t (user_id BIGINT PRIMARY KEY)
--> error 1235 (42000): the id of a topic numbers its messages; no other column can be AUTO_INCREMENT or its key

-- a column that numbers itself
CREATE TOPIC t (n BIGINT AUTO_INCREMENT UNIQUE)
--> error 1235 (42000): the id of a topic numbers its messages; no other column can be AUTO_INCREMENT or its key

-- a primary key of its own
CREATE TOPIC t (user_id BIGINT, PRIMARY KEY (user_id))
--> error 1235 (42000): the primary key of a topic is its id, the offset; leave PRIMARY KEY out

-- DROP TOPIC
DROP TOPIC unread
--> Execute
--> sql: DROP TABLE `shop`.`unread`
--> effects.catalog: True
--> effects.drops: shop.unread

-- DROP TOPIC that may not exist, and does
DROP TOPIC IF EXISTS shop.unread;
--> Execute
--> sql: DROP TABLE `shop`.`unread`
--> effects.catalog: True
--> effects.drops: shop.unread

-- DROP TOPIC that may not exist
DROP TOPIC IF EXISTS nope
--> NoOperation
--> note_errno: 1051
--> note: Unknown topic 'shop.nope'

-- DROP TOPIC that does not exist
DROP TOPIC nope
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- DROP TOPIC that has groups
DROP TOPIC orders
--> error 1235 (42000): topic 'orders' has consumer groups, whose unfinished messages would be lost; DROP GROUP them first: audit, billing

-- DROP TOPIC of two
DROP TOPIC unread, clicks
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', clicks' at line 1 (DROP TOPIC takes one topic)

-- DROP TOPIC of a queue
DROP TOPIC q
--> error 1235 (42000): 'q' is a queue, not a topic

-- DROP TOPIC of a group's queue
DROP TOPIC orders_group_billing
--> error 1235 (42000): 'orders_group_billing' is a queue, not a topic

-- DROP TOPIC of what cannot be one
DROP TOPIC half
--> error 1347 (HY000): 'half' is not a queue: time_created missing from topic: half

-- DROP TOPIC without a database
-- database: none
DROP TOPIC IF EXISTS unread
--> error 1046 (3D000): No database selected

-- DROP QUEUE of a topic
DROP QUEUE unread
--> error 1146 (42S02): Queue 'shop.unread' doesn't exist

-- TRUNCATE QUEUE of a topic
TRUNCATE QUEUE unread
--> error 1146 (42S02): Queue 'shop.unread' doesn't exist

-- ALTER QUEUE of a topic
ALTER QUEUE unread PAUSE
--> error 1146 (42S02): Queue 'shop.unread' doesn't exist

-- DROP TABLE of a topic
DROP TABLE unread
--> Passthrough
--> effects.uncertain: shop.unread
--> effects.removes: shop.unread
--> effects.catalog: True

-- TRUNCATE of a topic
TRUNCATE unread
--> Passthrough
--> effects.uncertain: shop.unread
--> effects.removes: shop.unread
--> effects.catalog: True

-- ALTER TABLE of a topic
ALTER TABLE unread ADD COLUMN note TEXT
--> Passthrough
--> effects.catalog: True

-- a table that says that it is a topic
CREATE TABLE t (id BIGINT PRIMARY KEY, time_scheduled BIGINT, time_created BIGINT) ENGINE=InnoDB COMMENT='queuegate_topic'
--> Passthrough
--> effects.catalog: True

-- CREATE GROUP
CREATE GROUP fraud ON orders
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: LATEST

-- CREATE GROUP that begins with the first message
CREATE GROUP fraud ON orders START AT EARLIEST
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: EARLIEST

-- CREATE GROUP that begins at the end
create group fraud on shop.orders start at latest;
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: LATEST

-- CREATE GROUP that begins at an offset
CREATE GROUP fraud ON orders START AT OFFSET 900
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: OFFSET
--> start.value: 900

-- CREATE GROUP that begins at a time
CREATE GROUP fraud ON orders START AT TIMESTAMP '2026-05-01 12:00:00'
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: TIMESTAMP
--> moment: 2026-05-01 12:00:00

-- CREATE GROUP that begins on a day, with options
CREATE GROUP fraud ON orders START AT '2026-5-1' WITH (max_attempts = 16, order_key = 'user_id', paused = 1,)
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.max_attempts: 16
--> options.order_key: user_id
--> options.paused: True
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: TIMESTAMP
--> moment: 2026-5-1

-- CREATE GROUP with limits
CREATE GROUP fraud ON orders WITH (max_rate = '10/s', max_concurrency = 2, ack_wait = '2m')
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.ack_wait_ns: 120000000000
--> options.min_backoff_ns: 1000000000
--> options.max_rate: 10
--> options.max_concurrency: 2
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: LATEST

-- CREATE GROUP in another database
CREATE GROUP fraud ON other.feed
--> CreateConsumerGroup
--> topic: other.Feed
--> group: other.Feed_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: Feed
--> options.consumer_group: fraud
--> start.start: LATEST

-- CREATE GROUP of a name in back-quotes
CREATE GROUP `on` ON orders
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_on
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: on
--> start.start: LATEST

-- CREATE GROUP of twenty characters
CREATE GROUP a2345678901234567_90 ON orders
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_a2345678901234567_90
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: a2345678901234567_90
--> start.start: LATEST

-- CREATE GROUP of a longer name
CREATE GROUP a2345678901234567_901 ON orders
--> error 1231 (42000): 'a2345678901234567_901' is not the name of a group: 1 to 20 of a-z, A-Z, 0-9 and _

-- CREATE GROUP of another character
CREATE GROUP `fraud-2` ON orders
--> error 1231 (42000): 'fraud-2' is not the name of a group: 1 to 20 of a-z, A-Z, 0-9 and _

-- CREATE GROUP of another alphabet
CREATE GROUP betrüger ON orders
--> error 1231 (42000): 'betrüger' is not the name of a group: 1 to 20 of a-z, A-Z, 0-9 and _

-- CREATE GROUP of no name
CREATE GROUP `` ON orders
--> error 1231 (42000): '' is not the name of a group: 1 to 20 of a-z, A-Z, 0-9 and _

-- CREATE GROUP of a quoted string
CREATE GROUP 'fraud' ON orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ''fraud' ON orders' at line 1

-- CREATE GROUP that exists
CREATE GROUP billing ON orders
--> error 1050 (42S01): Consumer group 'billing' already exists

-- CREATE GROUP that exists in another case
CREATE GROUP Billing ON shop.ORDERS
--> error 1050 (42S01): Consumer group 'Billing' already exists

-- CREATE GROUP that may exist, and does
CREATE GROUP IF NOT EXISTS billing ON orders START AT EARLIEST
--> NoOperation
--> note_errno: 1050
--> note: Consumer group 'billing' already exists
--> manages.topic: shop.orders
--> manages.group: billing

-- CREATE GROUP that may exist, and does in another case
CREATE GROUP IF NOT EXISTS Billing ON orders
--> NoOperation
--> note_errno: 1050
--> note: Consumer group 'Billing' already exists
--> manages.topic: shop.orders
--> manages.group: Billing

-- CREATE GROUP that may exist
CREATE GROUP IF NOT EXISTS fraud ON orders
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: LATEST

-- CREATE GROUP on nothing
CREATE GROUP fraud
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (say of which topic the group is: GROUP fraud ON t)

-- CREATE GROUP on a topic that does not exist
CREATE GROUP fraud ON nope
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- CREATE GROUP on a queue
CREATE GROUP fraud ON q
--> error 1235 (42000): 'q' is a queue, not a topic

-- CREATE GROUP on a group's queue
CREATE GROUP fraud ON orders_group_billing
--> error 1235 (42000): 'orders_group_billing' is a queue, not a topic

-- CREATE GROUP on what cannot be a topic
CREATE GROUP fraud ON half
--> error 1347 (HY000): 'half' is not a queue: time_created missing from topic: half

-- CREATE GROUP without a database
-- database: none
CREATE GROUP fraud ON orders
--> error 1046 (3D000): No database selected

-- CREATE GROUP with a clause that does not exist
CREATE GROUP fraud ON orders ENGINE = InnoDB
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ENGINE = InnoDB' at line 1 (CREATE GROUP g ON t [START AT ...] [WITH (option = value, ...)])

-- CREATE GROUP with START alone
CREATE GROUP fraud ON orders START EARLIEST
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'START EARLIEST' at line 1 (CREATE GROUP g ON t [START AT ...] [WITH (option = value, ...)])

-- CREATE GROUP that begins nowhere
CREATE GROUP fraud ON orders START AT
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (a beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP '2026-05-01 12:00:00')

-- CREATE GROUP that begins with a word
CREATE GROUP fraud ON orders START AT YESTERDAY
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'YESTERDAY' at line 1 (a beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP '2026-05-01 12:00:00')

-- CREATE GROUP that begins at a parameter
CREATE GROUP fraud ON orders START AT ?
--> error 1235 (42000): ? is not supported there; write the value

-- OFFSET of a parameter
CREATE GROUP fraud ON orders START AT OFFSET ?
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '?' at line 1 (OFFSET takes a whole number)

-- OFFSET below zero
CREATE GROUP fraud ON orders START AT OFFSET -1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '-1' at line 1 (OFFSET takes a whole number)

-- OFFSET of the largest number
CREATE GROUP fraud ON orders START AT OFFSET 999999999999999999
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: OFFSET
--> start.value: 999999999999999999

-- TIMESTAMP without quotes
CREATE GROUP fraud ON orders START AT TIMESTAMP 20260501
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '20260501' at line 1 (TIMESTAMP takes a quoted date and time)

-- TIMESTAMP of a word
CREATE GROUP fraud ON orders START AT TIMESTAMP 'yesterday'
--> error 1231 (42000): TIMESTAMP 'yesterday' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- TIMESTAMP of an hour without minutes
CREATE GROUP fraud ON orders START AT TIMESTAMP '2026-05-01 12'
--> error 1231 (42000): TIMESTAMP '2026-05-01 12' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- TIMESTAMP with microseconds
CREATE GROUP fraud ON orders START AT TIMESTAMP '2026-05-01T12:00:00.123456'
--> CreateConsumerGroup
--> topic: shop.orders
--> group: shop.orders_group_fraud
--> options.min_backoff_ns: 1000000000
--> options.topic: orders
--> options.consumer_group: fraud
--> start.start: TIMESTAMP
--> moment: 2026-05-01T12:00:00.123456

-- TIMESTAMP with a time zone
CREATE GROUP fraud ON orders START AT TIMESTAMP '2026-05-01 12:00:00Z'
--> error 1231 (42000): TIMESTAMP '2026-05-01 12:00:00Z' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- TIMESTAMP with other digits
CREATE GROUP fraud ON orders START AT TIMESTAMP '٢٠٢٦-05-01'
--> error 1231 (42000): TIMESTAMP '٢٠٢٦-05-01' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- TIMESTAMP that the database refuses
CREATE GROUP fraud ON orders START AT TIMESTAMP '2026-02-30'
--> error 1231 (42000): TIMESTAMP '2026-02-30' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- a group's topic is not an option
CREATE GROUP fraud ON orders WITH (topic = 'clicks')
--> error 1231 (42000): a consumer group has no option 'topic'

-- a group's name is not an option
CREATE GROUP fraud ON orders WITH (Consumer_Group = 'x')
--> error 1231 (42000): a consumer group has no option 'consumer_group'

-- a group forms no groups
CREATE GROUP fraud ON orders WITH (group_key = 'user_id')
--> error 1231 (42000): a consumer group has no option 'group_key'

-- a group has no archive
CREATE GROUP fraud ON orders WITH (archive = 1)
--> error 1231 (42000): a consumer group has no option 'archive'

-- a group has all columns
CREATE GROUP fraud ON orders WITH (message_cols = 'id|body')
--> error 1231 (42000): a consumer group has no option 'message_cols'

-- a group's dead letters go to a queue of its own
CREATE GROUP fraud ON orders WITH (dead_letter = 'trash')
--> error 1231 (42000): a consumer group has no option 'dead_letter'

-- a group is nobody's dead-letter queue
CREATE GROUP fraud ON orders WITH (dead_letter_of = 'q')
--> error 1231 (42000): a consumer group has no option 'dead_letter_of'

-- an option that does not exist
CREATE GROUP fraud ON orders WITH (retention = '7d')
--> error 1231 (42000): unknown queue option 'retention'; allowed: ack_wait, alarm_after, archive, backoff, batch_size, cache_size, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_backoff, max_concurrency, max_rate, message_cols, min_backoff, on_failure, order_key, paused, poll_interval, prefetch, purge_after, sharding_key, sticky_wait

-- an option with an absurd value
CREATE GROUP fraud ON orders WITH (prefetch = 0)
--> error 1231 (42000): prefetch: '0' is not a whole number from 1 to 1000000

-- CREATE QUEUE that would be a group's
CREATE QUEUE n (a INT) WITH (topic = 'orders', consumer_group = 'fraud')
--> error 1231 (42000): a queue has no option 'topic'; CREATE GROUP makes consumer groups

-- ALTER GROUP, options
ALTER GROUP billing ON orders SET (max_attempts = 5, ack_wait = DEFAULT)
--> Execute
--> sql: ALTER TABLE `shop`.`orders_group_billing` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_attempts=5,topic=orders,consumer_group=billing,queuegate_table=orders_group_billing'
--> effects.catalog: shop.orders_group_billing
--> manages.topic: shop.orders
--> manages.group: billing

-- ALTER GROUP, an order
ALTER GROUP billing ON shop.orders SET (order_key = 'user_id');
--> Execute
--> sql: ALTER TABLE `shop`.`orders_group_billing` ADD KEY `queuegate_order` (time_acked, `user_id`, id), ADD KEY `queuegate_order_held` (time_acked, `user_id`, time_next), COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,order_key=user_id,topic=orders,consumer_group=billing,queuegate_table=orders_group_billing'
--> effects.catalog: shop.orders_group_billing
--> manages.topic: shop.orders
--> manages.group: billing

-- ALTER GROUP, no order
ALTER GROUP Audit ON orders SET (order_key = NULL)
--> Execute
--> sql: ALTER TABLE `shop`.`orders_group_audit` DROP KEY `queuegate_order`, DROP KEY `queuegate_order_held`, COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_attempts=16,topic=orders,consumer_group=audit,queuegate_table=orders_group_audit'
--> effects.catalog: shop.orders_group_audit
--> manages.topic: shop.orders
--> manages.group: audit

-- ALTER GROUP, an order by what is no column
ALTER GROUP billing ON orders SET (order_key = 'nothing')
--> error 1231 (42000): order_key: 'nothing' is not a column of the queue

-- ALTER GROUP, a dead-letter queue of another name
ALTER GROUP billing ON orders SET (dead_letter = 'trash')
--> error 1231 (42000): a consumer group has no option 'dead_letter'

-- PAUSE
ALTER GROUP billing ON orders PAUSE
--> Execute
--> sql: ALTER TABLE `shop`.`orders_group_billing` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,paused=1,topic=orders,consumer_group=billing,queuegate_table=orders_group_billing'
--> effects.catalog: shop.orders_group_billing
--> manages.topic: shop.orders
--> manages.group: billing

-- RESUME
alter group `stats` on clicks resume
--> Execute
--> sql: ALTER TABLE `shop`.`clicks_group_stats` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,topic=clicks,consumer_group=stats,queuegate_table=clicks_group_stats'
--> effects.catalog: shop.clicks_group_stats
--> manages.topic: shop.clicks
--> manages.group: stats

-- ALTER GROUP, an option that no group has
ALTER GROUP billing ON orders SET (group_key = 'user_id')
--> error 1231 (42000): a consumer group has no option 'group_key'

-- ALTER GROUP, an option of its own
ALTER GROUP billing ON orders SET (topic = DEFAULT)
--> error 1231 (42000): a consumer group has no option 'topic'

-- ALTER GROUP, an option that does not exist
ALTER GROUP billing ON orders SET (retention = 1)
--> error 1231 (42000): unknown queue option 'retention'; allowed: ack_wait, alarm_after, archive, backoff, batch_size, cache_size, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_backoff, max_concurrency, max_rate, message_cols, min_backoff, on_failure, order_key, paused, poll_interval, prefetch, purge_after, sharding_key, sticky_wait

-- ALTER GROUP that does not exist
ALTER GROUP fraud ON orders PAUSE
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- ALTER GROUP of a topic without groups
ALTER GROUP fraud ON unread PAUSE
--> error 1231 (42000): topic 'unread' has no consumer group: CREATE GROUP name ON unread

-- ALTER GROUP on a queue
ALTER GROUP fraud ON q PAUSE
--> error 1235 (42000): 'q' is a queue, not a topic

-- ALTER GROUP on nothing
ALTER GROUP billing PAUSE
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'PAUSE' at line 1 (say of which topic the group is: GROUP billing ON t)

-- ALTER GROUP without a change
ALTER GROUP billing ON orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (ALTER GROUP g ON t takes SEEK TO, SET (option = value, ...), PAUSE or RESUME)

-- ALTER GROUP, SET without parentheses
ALTER GROUP billing ON orders SET max_attempts = 5
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'max_attempts = 5' at line 1 (ALTER GROUP g ON t takes SEEK TO, SET (option = value, ...), PAUSE or RESUME)

-- ALTER GROUP, two changes
ALTER GROUP billing ON orders PAUSE RESUME
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'RESUME' at line 1 (ALTER GROUP g ON t takes one of SEEK TO, SET (...), PAUSE, RESUME)

-- a seek to the first message
ALTER GROUP billing ON orders SEEK TO EARLIEST
--> SeekConsumerGroup
--> group: shop.orders_group_billing
--> start.start: EARLIEST
--> moment: 
--> manages.topic: shop.orders
--> manages.group: billing

-- a seek to the end
ALTER GROUP billing ON orders SEEK TO LATEST
--> SeekConsumerGroup
--> group: shop.orders_group_billing
--> start.start: LATEST
--> moment: 
--> manages.topic: shop.orders
--> manages.group: billing

-- a seek to an offset
ALTER GROUP billing ON orders SEEK TO OFFSET 900;
--> SeekConsumerGroup
--> group: shop.orders_group_billing
--> start.start: OFFSET
--> start.value: 900
--> moment: 
--> manages.topic: shop.orders
--> manages.group: billing

-- a seek to a time
ALTER GROUP Readers ON other.Feed SEEK TO TIMESTAMP "2026-05-01 12:00"
--> SeekConsumerGroup
--> group: other.Feed_group_Readers
--> start.start: TIMESTAMP
--> moment: 2026-05-01 12:00
--> manages.topic: other.Feed
--> manages.group: Readers

-- a seek to nothing
ALTER GROUP billing ON orders SEEK TO
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (a beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP '2026-05-01 12:00:00')

-- a seek without TO
ALTER GROUP billing ON orders SEEK EARLIEST
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'SEEK EARLIEST' at line 1 (ALTER GROUP g ON t takes SEEK TO, SET (option = value, ...), PAUSE or RESUME)

-- a seek of what is no time
ALTER GROUP billing ON orders SEEK TO TIMESTAMP '12:00'
--> error 1231 (42000): TIMESTAMP '12:00' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- a seek of an unknown group
ALTER GROUP fraud ON orders SEEK TO EARLIEST
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- a seek on a topic that does not exist
ALTER GROUP billing ON nope SEEK TO EARLIEST
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- DROP GROUP
DROP GROUP billing ON orders
--> Execute
--> sql: DROP TABLE `shop`.`orders_group_billing`
--> effects.catalog: True
--> manages.topic: shop.orders
--> manages.group: billing

-- DROP GROUP with its dead letters
DROP GROUP audit ON orders
--> Execute
--> sql: DROP TABLE `shop`.`orders_group_audit`, `shop`.`orders_group_audit_dead`
--> effects.catalog: True
--> manages.topic: shop.orders
--> manages.group: audit

-- DROP GROUP in another case
drop group READERS on other.feed;
--> Execute
--> sql: DROP TABLE `other`.`Feed_group_Readers`
--> effects.catalog: True
--> manages.topic: other.Feed
--> manages.group: Readers

-- DROP GROUP that may not exist, and does
DROP GROUP IF EXISTS billing ON orders
--> Execute
--> sql: DROP TABLE `shop`.`orders_group_billing`
--> effects.catalog: True
--> manages.topic: shop.orders
--> manages.group: billing

-- DROP GROUP that may not exist
DROP GROUP IF EXISTS fraud ON orders
--> NoOperation
--> note_errno: 1051
--> note: Unknown consumer group 'fraud'
--> manages.topic: shop.orders
--> manages.group: fraud

-- DROP GROUP that may not exist, on a topic that does not
DROP GROUP IF EXISTS fraud ON nope
--> NoOperation
--> note_errno: 1051
--> note: Unknown consumer group 'fraud'

-- DROP GROUP that does not exist
DROP GROUP fraud ON orders
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- DROP GROUP on a topic that does not exist
DROP GROUP fraud ON nope
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- DROP GROUP on a queue
DROP GROUP fraud ON q
--> error 1235 (42000): 'q' is a queue, not a topic

-- DROP GROUP on nothing
DROP GROUP billing
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (say of which topic the group is: GROUP billing ON t)

-- DROP GROUP of two
DROP GROUP billing, audit ON orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', audit ON orders' at line 1 (say of which topic the group is: GROUP billing ON t)

-- SHOW TOPICS
SHOW TOPICS
--> Show
--> view: TOPICS
--> database: shop

-- SHOW TOPICS with a pattern
show topics from other like 'f%';
--> Show
--> view: TOPICS
--> database: other
--> like: f%

-- SHOW TOPICS without a database
-- database: none
SHOW TOPICS
--> Show
--> view: TOPICS

-- SHOW TOPICS WHERE
SHOW TOPICS WHERE 1
--> error 1235 (42000): SHOW TOPICS WHERE is not supported; use SHOW TOPICS LIKE 'pattern'

-- SHOW GROUPS
SHOW GROUPS
--> Show
--> view: GROUPS
--> database: shop

-- SHOW GROUPS of a topic
SHOW GROUPS ON orders
--> Show
--> view: GROUPS
--> database: shop
--> name: orders

-- SHOW GROUPS of a topic in another database, with a pattern
SHOW GROUPS ON `other`.feed LIKE 'r%'
--> Show
--> view: GROUPS
--> database: other
--> like: r%
--> name: Feed

-- SHOW GROUPS of a topic that does not exist
SHOW GROUPS ON nope
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- SHOW GROUPS of a queue
SHOW GROUPS ON q FROM shop
--> error 1235 (42000): 'q' is a queue, not a topic

-- SHOW GROUPS of a database
SHOW GROUPS IN other
--> Show
--> view: GROUPS
--> database: other

-- SHOW GROUPS without a database
-- database: none
SHOW GROUPS
--> Show
--> view: GROUPS

-- SHOW CONSUMERS
SHOW CONSUMERS
--> Show
--> view: CONSUMERS
--> database: shop

-- SHOW CONSUMERS of a topic
SHOW CONSUMERS ON `other`.feed LIKE 'w%'
--> Show
--> view: CONSUMERS
--> database: other
--> like: w%
--> name: Feed

-- SHOW CONSUMERS of a queue
SHOW CONSUMERS ON q
--> error 1235 (42000): 'q' is a queue, not a topic

-- SHOW CONSUMERS of a topic that does not exist
SHOW CONSUMERS ON nope
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- SHOW CONSUMERS WHERE
SHOW CONSUMERS WHERE 1
--> error 1235 (42000): SHOW CONSUMERS WHERE is not supported; use SHOW CONSUMERS LIKE 'pattern'

-- a member that says its name
SELECT * FROM STREAM orders WITH (group = 'billing', consumer = 'worker 7')
--> Subscribe
--> request.queue: shop.orders_group_billing
--> request.receiver.consumer: worker 7

-- a reader of a broadcast that says its name
SELECT * FROM STREAM orders WITH (mode = 'broadcast', consumer = 'screen')
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body')
--> request.receiver.consumer: screen
--> request.start.start: LATEST

-- a receiver of a queue that says its name
SELECT * FROM STREAM q WITH (consumer = 'worker 7')
--> Subscribe
--> request.queue: shop.q
--> request.receiver.consumer: worker 7

-- a consumer without a name
SELECT * FROM STREAM q WITH (consumer = '')
--> error 1231 (42000): consumer: '' is not a name of 1 to 64 characters

-- TRACE MESSAGE
TRACE MESSAGE 101 ON orders
--> Trace
--> topic: shop.orders
--> id: 101
--> sql: SELECT time_created, id FROM `shop`.`orders` WHERE id = 101
--> groups: (('audit', ExplainDelivery(queue=shop.orders_group_audit, sql=SELECT (NOW_NS()) AS qg_now, `shop`.`orders_group_audit`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, (SELECT MIN(qg_other.id) FROM `shop`.`orders_group_audit` AS qg_other WHERE qg_other.time_acked IS NULL AND qg_other.`user_id` = `shop`.`orders_group_audit`.`user_id` AND qg_other.id < `shop`.`orders_group_audit`.id) AS qg_earlier, (SELECT MIN(qg_other.id) FROM `shop`.`orders_group_audit` AS qg_other WHERE qg_other.time_acked IS NULL AND qg_other.`user_id` = `shop`.`orders_group_audit`.`user_id` AND qg_other.id <> `shop`.`orders_group_audit`.id AND (qg_other.time_acked IS NULL AND qg_other.epoch > 0 AND qg_other.time_next > (NOW_NS()) AND MOD(qg_other.time_next, 1000) IN (1, 3))) AS qg_held, failed_attempts AS qg_failed_attempts FROM `shop`.`orders_group_audit` WHERE (id = 101) ORDER BY id LIMIT 20, ids=(101), limit=20)), ('billing', ExplainDelivery(queue=shop.orders_group_billing, sql=SELECT (NOW_NS()) AS qg_now, `shop`.`orders_group_billing`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, failed_attempts AS qg_failed_attempts FROM `shop`.`orders_group_billing` WHERE (id = 101) ORDER BY id LIMIT 20, ids=(101), limit=20)))

-- TRACE MESSAGE of a topic in another database
trace message 1 on `other`.feed;
--> Trace
--> topic: other.Feed
--> id: 1
--> sql: SELECT time_created, id FROM `other`.`Feed` WHERE id = 1
--> groups: (('Readers', ExplainDelivery(queue=other.Feed_group_Readers, sql=SELECT (NOW_NS()) AS qg_now, `other`.`Feed_group_Readers`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, failed_attempts AS qg_failed_attempts FROM `other`.`Feed_group_Readers` WHERE (id = 1) ORDER BY id LIMIT 20, ids=(1), limit=20)))

-- TRACE MESSAGE of a queue
TRACE MESSAGE 1 ON q
--> TraceInQueue
--> delivery.queue: shop.q
--> delivery.sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, failed_attempts AS qg_failed_attempts FROM `shop`.`q` WHERE (id IN (1)) ORDER BY id LIMIT 1
--> delivery.ids: (1)
--> sql: SELECT time_created FROM `shop`.`q` WHERE id IN (1)

-- TRACE MESSAGE of a queue, with an id that is no number
TRACE MESSAGE 'one' ON q
--> error 1366 (HY000): Incorrect integer value: 'one' for column 'id' of queue 'q'

-- TRACE MESSAGE of a queue that does not say when a message was enqueued
trace message 7 on `bare`;
--> TraceInQueue
--> delivery.queue: shop.bare
--> delivery.sql: SELECT (NOW_NS()) AS qg_now, `shop`.`bare`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, NULL AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`bare` WHERE (id IN (7)) ORDER BY id LIMIT 1
--> delivery.ids: (7)
--> sql: 

-- TRACE MESSAGE with an expression
TRACE MESSAGE 1 OR 1 = 1 ON q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'OR 1 = 1 ON q' at line 1

-- TRACE MESSAGE with a word
TRACE MESSAGE abc ON q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'abc ON q' at line 1 (an id is a whole number, a quoted string or X'hex')

-- TRACE MESSAGE of a topic, with an id that is none
TRACE MESSAGE 'a' ON orders
--> error 1366 (HY000): Incorrect offset: 'a' for topic 'orders'; TRACE MESSAGE takes a whole number

-- a history that is kept
CREATE TOPIC t (body TEXT) WITH (trace = '10%', trace_keep = '1d')
--> Execute
--> sql: CREATE TABLE `shop`.`t` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), body TEXT, KEY queuegate_time (time_created), CONSTRAINT `t_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000))) ENGINE=InnoDB COMMENT='queuegate_topic,trace=10%,trace_keep=86400s,queuegate_table=t'
--> effects.catalog: True

-- a history that is kept no more
ALTER TOPIC orders SET (trace_keep = 'off')
--> Execute
--> sql: ALTER TABLE `shop`.`orders` COMMENT='queuegate_topic,queuegate_table=orders'
--> effects.catalog: True

-- TRACE MESSAGE of a topic that does not exist
TRACE MESSAGE 1 ON nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- TRACE MESSAGE of several
TRACE MESSAGE 1, 2 ON orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', 2 ON orders' at line 1

-- TRACE MESSAGE with a parameter
TRACE MESSAGE ? ON orders
--> error 1235 (42000): TRACE MESSAGE takes no ?; write the id into the statement

-- TRACE of nothing
TRACE orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'orders' at line 1

-- SHOW GROUPS of nothing
SHOW GROUPS ON
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1

-- INSERT
INSERT INTO orders (user_id, body) VALUES (7, 'created'), (8, 'id')
--> Passthrough
--> effects.touched: shop.orders
--> effects.tally: (shop.orders, 'enqueued')

-- INSERT by SET
INSERT orders SET user_id = 7
--> Passthrough
--> effects.touched: shop.orders
--> effects.tally: (shop.orders, 'enqueued')

-- INSERT without a list of columns
INSERT INTO orders VALUES (DEFAULT, DEFAULT, DEFAULT, 7, 'created')
--> Passthrough
--> effects.touched: shop.orders
--> effects.tally: (shop.orders, 'enqueued')

-- INSERT from a SELECT
INSERT INTO orders (user_id, body) SELECT user_id, body FROM account
--> Passthrough
--> effects.touched: shop.orders
--> effects.tally: (shop.orders, 'enqueued')

-- INSERT of a scheduled message
INSERT INTO orders (body, time_scheduled) VALUES ('later', 1800000000000000000)
--> Passthrough
--> effects.touched: shop.orders
--> effects.tally: (shop.orders, 'enqueued')

-- INSERT with an id
INSERT INTO orders (id, body) VALUES (1, 'created')
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT with an id, in back-quotes and qualified
INSERT INTO shop.orders (body, orders.`ID`) VALUES ('created', 1)
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT with an id that is bound
INSERT INTO orders (id, body) VALUES (?, ?)
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT with an id by SET
INSERT INTO orders SET id = 1, body = 'created'
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT with an id in its second row
INSERT INTO orders (id, body) VALUES (NULL, 'a'), (2, 'b')
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT with ids from a SELECT
INSERT INTO orders (id, body) SELECT id, body FROM account
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT that names id and gives none
INSERT INTO orders (id, body) VALUES (NULL, 'a'), (null, 'b')
--> Passthrough
--> effects.touched: shop.orders

-- INSERT that names id and gives the default
INSERT INTO orders (id, body) VALUES (DEFAULT, 'a')
--> Passthrough
--> effects.touched: shop.orders

-- INSERT with an id or another message
INSERT INTO orders (id, body) VALUES (1, 'a') ON DUPLICATE KEY UPDATE body = 'a'
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- INSERT or another message
INSERT INTO orders (user_id, body) VALUES (1, 'a') ON DUPLICATE KEY UPDATE body = 'a'
--> Passthrough
--> effects.touched: shop.orders
--> effects.uncertain: shop.orders

-- REPLACE with an id
REPLACE INTO orders (id, body) VALUES (1, 'a')
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- REPLACE with an id from a SELECT
REPLACE orders (body, id) SELECT body, id FROM account
--> error 1235 (42000): the database gives a topic's messages their ids; leave id out: 'orders'

-- REPLACE
REPLACE INTO orders (user_id, body) VALUES (1, 'a')
--> Passthrough
--> effects.touched: shop.orders
--> effects.uncertain: shop.orders

-- INSERT after a group of messages
INSERT INTO orders (body) VALUES ('a') AFTER GROUP 1 OF parts
--> error 1146 (42S02): Queue 'shop.orders' doesn't exist

-- INSERT into a group's queue
INSERT INTO orders_group_billing (user_id, body) VALUES (7, 'a')
--> error 1235 (42000): 'orders_group_billing' is fed from its topic: INSERT INTO orders

-- INSERT into a group's queue from a SELECT
INSERT INTO orders_group_billing SELECT * FROM account
--> error 1235 (42000): 'orders_group_billing' is fed from its topic: INSERT INTO orders

-- REPLACE in a group's queue
REPLACE INTO orders_group_billing (id, body) VALUES (1, 'a')
--> error 1235 (42000): 'orders_group_billing' is fed from its topic: INSERT INTO orders

-- INSERT IGNORE into a group's queue by SET
INSERT IGNORE INTO orders_group_billing SET user_id = 7
--> error 1235 (42000): 'orders_group_billing' is fed from its topic: INSERT INTO orders

-- INSERT into a group's queue after a group of messages
INSERT INTO orders_group_billing (id, user_id) VALUES (7, 7) AFTER GROUP 1 OF parts
--> error 1235 (42000): 'orders_group_billing' is fed from its topic: INSERT INTO orders

-- ALTER QUEUE that would be a group's
ALTER QUEUE q SET (topic = 'orders', consumer_group = 'fraud')
--> error 1231 (42000): a queue has no option 'topic'; CREATE GROUP makes consumer groups

-- ALTER QUEUE that would be a group's no more
ALTER QUEUE orders_group_billing SET (topic = DEFAULT)
--> error 1231 (42000): a consumer group has no option 'topic'

-- DROP QUEUE of a group's
DROP QUEUE orders_group_billing
--> Execute
--> sql: DROP TABLE `shop`.`orders_group_billing`
--> effects.catalog: shop.orders_group_billing
--> effects.drops: shop.orders_group_billing

-- DELETE of old messages
DELETE FROM orders WHERE time_created < 1700000000000000000
--> Passthrough

-- UPDATE of a message
UPDATE orders SET body = 'b' WHERE id = 1
--> Passthrough
--> effects.touched: shop.orders
--> effects.uncertain: shop.orders

-- looking something up
SELECT * FROM orders WHERE user_id = 7
--> Passthrough

-- the stream of a group
SELECT * FROM STREAM orders WITH (group = 'billing')
--> Subscribe
--> request.queue: shop.orders_group_billing

-- the stream of a group, in another case
SELECT * FROM STREAM ORDERS WITH (GROUP = 'Billing', prefetch = 10, ack_wait = '2m') LIMIT 5 WAIT 1.5
--> Subscribe
--> request.queue: shop.orders_group_billing
--> request.limit: 5
--> request.wait_mode: WAIT
--> request.wait_seconds: 1.5
--> request.prefetch: 10
--> request.ack_wait_ns: 120000000000

-- the stream of the only group
SELECT id, `Page`, epoch FROM STREAM clicks NOWAIT
--> Subscribe
--> request.queue: shop.clicks_group_stats
--> request.columns: ('id', 'Page', 'epoch')
--> request.wait_mode: NOWAIT

-- Vitess's spelling
stream * from other.feed;
--> Subscribe
--> request.queue: other.Feed_group_Readers

-- the stream of a group that is said to be one
SELECT * FROM STREAM clicks WITH (mode = 'Group')
--> Subscribe
--> request.queue: shop.clicks_group_stats

-- the stream of a group with a condition
SELECT * FROM STREAM orders WHERE user_id = 7 AND body LIKE ? LIMIT ? WITH (group = 'audit')
--> Subscribe
--> request.queue: shop.orders_group_audit
--> parameters: ('where', 'limit')
--> filter.parts: ('`user_id` = 7 AND `body` LIKE ', '')
--> filter.text: user_id = 7 AND body LIKE ?

-- columns of the topic's name
SELECT orders.id, shop.orders.body, orders.* FROM STREAM orders WITH (group = 'audit')
--> Subscribe
--> request.queue: shop.orders_group_audit
--> request.columns: ('id', 'body', 'id', 'user_id', 'body')

-- columns of the queue's name
SELECT orders_group_audit.id FROM STREAM orders WITH (group = 'audit')
--> Subscribe
--> request.queue: shop.orders_group_audit
--> request.columns: ('id')

-- columns of another name
SELECT clicks.id FROM STREAM orders WITH (group = 'audit')
--> error 1054 (42S22): Unknown column 'clicks.id' in 'field list'

-- the stream of the group's queue
SELECT * FROM STREAM orders_group_billing WITH (prefetch = 3)
--> Subscribe
--> request.queue: shop.orders_group_billing
--> request.prefetch: 3

-- several groups and none named
SELECT * FROM STREAM orders
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- a topic without groups
SELECT * FROM STREAM unread
--> error 1231 (42000): topic 'unread' has no consumer group: CREATE GROUP name ON unread

-- a group of a topic without groups
SELECT * FROM STREAM unread WITH (group = 'billing')
--> error 1231 (42000): topic 'unread' has no consumer group: CREATE GROUP name ON unread

-- an unknown group
SELECT * FROM STREAM orders WITH (group = 'fraud')
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- an unknown column in a group
SELECT nothing FROM STREAM orders WITH (group = 'billing')
--> error 1054 (42S22): Unknown column 'nothing' in 'field list'

-- a broadcast by its beginning, of a group
SELECT * FROM STREAM orders WITH (group = 'billing', start = 'earliest')
--> error 1231 (42000): a broadcast has no option 'group'; allowed: mode, start, consumer

-- a group's stream with a beginning
SELECT * FROM STREAM orders WITH (mode = 'group', group = 'billing', start = 1)
--> error 1231 (42000): a stream has no option 'start'; allowed: ack_wait, prefetch, consumer, lease, key_range, keys

-- a mode that does not exist
SELECT * FROM STREAM orders WITH (mode = 'everybody')
--> error 1231 (42000): mode: 'everybody' is neither 'group' nor 'broadcast'

-- a stream of a queue with a group
SELECT * FROM STREAM q WITH (group = 'billing')
--> error 1231 (42000): a stream has no option 'group'; allowed: ack_wait, prefetch, consumer, lease, key_range, keys

-- a stream of a queue with a mode
SELECT * FROM STREAM q WITH (mode = 'broadcast')
--> error 1231 (42000): a stream has no option 'mode'; allowed: ack_wait, prefetch, consumer, lease, key_range, keys

-- the stream of what cannot be a topic
SELECT * FROM STREAM half WITH (mode = 'broadcast')
--> error 1347 (HY000): 'half' is not a queue: time_created missing from topic: half

-- a group named as ACK names it
SELECT * FROM STREAM orders GROUP billing
--> error 1235 (42000): A stream names its consumer group by WITH (group = 'name')

-- GROUP BY in the stream of a topic
SELECT * FROM STREAM orders GROUP BY user_id
--> error 1235 (42000): GROUP BY is not supported with FROM STREAM by this version; read the queue's table instead: SELECT ... FROM q GROUP BY ...

-- an alias of a topic's stream
SELECT * FROM STREAM orders o
--> error 1235 (42000): An alias for a stream is not supported; use the queue's name

-- a broadcast
SELECT * FROM STREAM orders WITH (mode = 'broadcast')
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body')
--> request.start.start: LATEST

-- a broadcast of a topic without groups
SELECT * FROM STREAM unread WITH (mode = 'broadcast')
--> Subscribe
--> request.queue: shop.unread
--> request.columns: ('id', 'body')
--> request.start.start: LATEST

-- a broadcast from the first message
SELECT body, ID, time_created FROM STREAM orders WITH (start = 'Earliest') LIMIT 10 NOWAIT
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('body', 'ID', 'time_created')
--> request.limit: 10
--> request.wait_mode: NOWAIT
--> request.start.start: EARLIEST

-- a broadcast from an offset
STREAM * FROM orders WITH (mode = 'BROADCAST', start = 900)
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body')
--> request.start.start: OFFSET
--> request.start.value: 900

-- a broadcast from an offset in quotes
SELECT *, time_scheduled FROM STREAM orders WITH (start = ' 0900 ') WAIT ?
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body', 'time_scheduled')
--> request.wait_mode: WAIT
--> request.start.start: OFFSET
--> request.start.value: 900
--> parameters: ('wait')

-- a broadcast from a time
SELECT * FROM STREAM orders LIMIT ? WITH (start = '2026-05-01 12:00')
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body')
--> request.start.start: TIMESTAMP
--> parameters: ('limit')
--> moment: 2026-05-01 12:00

-- a broadcast from an offset below zero
SELECT * FROM STREAM orders WITH (start = -1)
--> error 1231 (42000): start: '-1' is none of 'earliest', 'latest', an offset, or a time such as '2026-05-01 12:00:00'

-- a broadcast from a fraction
SELECT * FROM STREAM orders WITH (start = 1.5)
--> error 1231 (42000): start: '1.5' is none of 'earliest', 'latest', an offset, or a time such as '2026-05-01 12:00:00'

-- a broadcast from what is no time
SELECT * FROM STREAM orders WITH (start = 'yesterday')
--> error 1231 (42000): start: 'yesterday' is none of 'earliest', 'latest', an offset, or a time such as '2026-05-01 12:00:00'

-- a broadcast from nothing
SELECT * FROM STREAM orders WITH (start = '')
--> error 1231 (42000): start: '' is none of 'earliest', 'latest', an offset, or a time such as '2026-05-01 12:00:00'

-- a broadcast with a condition
SELECT * FROM STREAM orders WHERE user_id = 7 WITH (mode = 'broadcast')
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'user_id', 'body')
--> request.start.start: LATEST
--> filter.parts: ('`user_id` = 7')
--> filter.text: user_id = 7

-- a broadcast of a group
SELECT * FROM STREAM orders WITH (mode = 'broadcast', group = 'billing')
--> error 1231 (42000): a broadcast has no option 'group'; allowed: mode, start, consumer

-- a broadcast with a prefetch
SELECT * FROM STREAM orders WITH (mode = 'broadcast', prefetch = 10, ack_wait = 3)
--> error 1231 (42000): a broadcast has no option 'ack_wait'; allowed: mode, start, consumer

-- a broadcast of an unknown column
SELECT nothing FROM STREAM orders WITH (mode = 'broadcast')
--> error 1054 (42S22): Unknown column 'nothing' in 'field list'

-- a broadcast of a column that only groups have
SELECT epoch FROM STREAM orders WITH (mode = 'broadcast')
--> error 1054 (42S22): Unknown column 'epoch' in 'field list'

-- a broadcast of columns of the topic's name
SELECT orders.id, shop.orders.* FROM STREAM orders WITH (mode = 'broadcast')
--> Subscribe
--> request.queue: shop.orders
--> request.columns: ('id', 'id', 'user_id', 'body')
--> request.start.start: LATEST

-- a broadcast of columns of another name
SELECT clicks.id FROM STREAM orders WITH (mode = 'broadcast')
--> error 1054 (42S22): Unknown column 'clicks.id' in 'field list'

-- a replay
SELECT * FROM STREAM orders SINCE EARLIEST
--> Execute
--> sql: SELECT `id`, `user_id`, `body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) ORDER BY id

-- a replay between offsets
SELECT id, Body FROM STREAM shop.orders SINCE OFFSET 1 UNTIL OFFSET 900;
--> Execute
--> sql: SELECT `id`, `Body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND id >= 1 AND id <= 900 ORDER BY id

-- a replay up to an offset
STREAM * FROM orders UNTIL OFFSET 900 LIMIT 10
--> Execute
--> sql: SELECT `id`, `user_id`, `body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND id <= 900 ORDER BY id LIMIT 10

-- a replay between times
SELECT * FROM STREAM orders UNTIL TIMESTAMP '2026-06-01' SINCE TIMESTAMP '2026-05-01 12:00:00'
--> Execute
--> sql: SELECT `id`, `user_id`, `body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND time_created >= CAST(UNIX_TIMESTAMP('2026-05-01 12:00:00') * 1000000000 AS SIGNED) AND id >= CAST((SELECT MIN(id) FROM (SELECT id FROM `shop`.`orders` WHERE time_created >= CAST(UNIX_TIMESTAMP('2026-05-01 12:00:00') * 1000000000 AS SIGNED) ORDER BY time_created LIMIT 1000) AS qg_since) AS SIGNED) - 100000 AND time_created <= CAST(UNIX_TIMESTAMP('2026-06-01') * 1000000000 AS SIGNED) ORDER BY id

-- a replay up to the end
SELECT id FROM STREAM orders SINCE '2026-05-01' UNTIL LATEST
--> Execute
--> sql: SELECT `id` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND time_created >= CAST(UNIX_TIMESTAMP('2026-05-01') * 1000000000 AS SIGNED) AND id >= CAST((SELECT MIN(id) FROM (SELECT id FROM `shop`.`orders` WHERE time_created >= CAST(UNIX_TIMESTAMP('2026-05-01') * 1000000000 AS SIGNED) ORDER BY time_created LIMIT 1000) AS qg_since) AS SIGNED) - 100000 ORDER BY id

-- a replay with a condition
SELECT * FROM STREAM orders WHERE user_id = 7 OR body LIKE 'a%' SINCE OFFSET 5 LIMIT 3
--> Execute
--> sql: SELECT `id`, `user_id`, `body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND id >= 5 AND (user_id = 7 OR body LIKE 'a%') ORDER BY id LIMIT 3

-- a replay with a condition behind it
SELECT * FROM STREAM orders SINCE OFFSET 5 WHERE since = 1 OR (until > 2)
--> Execute
--> sql: SELECT `id`, `user_id`, `body` FROM `shop`.`orders` WHERE time_scheduled <= (NOW_NS()) AND id >= 5 AND (since = 1 OR (until > 2)) ORDER BY id

-- a replay with NOWAIT
SELECT * FROM STREAM unread SINCE EARLIEST NOWAIT
--> error 1235 (42000): a stream with SINCE or UNTIL ends by itself: leave WAIT and NOWAIT out

-- a replay of columns of another name
SELECT clicks.id FROM STREAM orders SINCE EARLIEST
--> error 1054 (42S22): Unknown column 'clicks.id' in 'field list'

-- a replay of an unknown column
SELECT nothing FROM STREAM orders SINCE EARLIEST
--> error 1054 (42S22): Unknown column 'nothing' in 'field list'

-- a replay since the end
SELECT * FROM STREAM orders SINCE LATEST
--> error 1235 (42000): SINCE LATEST would bring nothing; WITH (mode = 'broadcast') reads what is to come

-- a replay until the beginning
SELECT * FROM STREAM orders UNTIL EARLIEST
--> error 1235 (42000): UNTIL EARLIEST would bring nothing

-- a replay since nothing
SELECT * FROM STREAM orders SINCE
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (a beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP '2026-05-01 12:00:00')

-- a replay since what is no time
SELECT * FROM STREAM orders SINCE TIMESTAMP 'yesterday'
--> error 1231 (42000): TIMESTAMP 'yesterday' is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'

-- a replay since two places
SELECT * FROM STREAM orders SINCE EARLIEST SINCE OFFSET 3
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'SINCE OFFSET 3' at line 1 (SINCE given twice)

-- a replay since a parameter
SELECT * FROM STREAM orders SINCE ?
--> error 1235 (42000): ? is not supported there; write the value

-- a replay with a parameter
SELECT * FROM STREAM orders SINCE EARLIEST WHERE user_id = ?
--> error 1235 (42000): a stream with SINCE or UNTIL takes no WITH and no ?; it reads the topic and ends

-- a replay with a limit that is bound
SELECT * FROM STREAM orders SINCE EARLIEST LIMIT ?
--> error 1235 (42000): a stream with SINCE or UNTIL takes no WITH and no ?; it reads the topic and ends

-- a replay with options
SELECT * FROM STREAM orders SINCE EARLIEST WITH (group = 'billing')
--> error 1235 (42000): a stream with SINCE or UNTIL takes no WITH and no ?; it reads the topic and ends

-- a replay of a queue
SELECT * FROM STREAM q SINCE EARLIEST
--> error 1235 (42000): SINCE and UNTIL read a topic, which 'q' is not

-- a replay of a group's queue
SELECT * FROM STREAM orders_group_billing UNTIL OFFSET 3
--> error 1235 (42000): SINCE and UNTIL read a topic, which 'orders_group_billing' is not

-- a replay of what does not exist
SELECT * FROM STREAM nope SINCE EARLIEST
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- a table called stream with an alias called since
SELECT * FROM stream since
--> error 1146 (42S02): Queue 'shop.since' doesn't exist [perhaps an alias]

-- ACK
ACK orders 101, 102 GROUP billing
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (id IN (101, 102)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.orders_group_billing, (101, 102)))
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK, the group before the ids
ACK shop.orders GROUP billing (101, '102', ?);
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (id IN (101, 102, ?)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.orders_group_billing, (101, 102)))
--> effects.uncertain: shop.orders_group_billing
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK, the group in back-quotes and in another case
ack orders (101) GROUP `Billing`
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (id IN (101)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.orders_group_billing, (101)))
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK of no message
ACK orders () GROUP billing
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (FALSE) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.uncertain: shop.orders_group_billing
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK by condition
ACK orders WHERE user_id = 7 GROUP audit
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_audit` WHERE (user_id = 7) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.uncertain: shop.orders_group_audit
--> effects.tally: (shop.orders_group_audit, 'acked')
--> pins: VERB

-- ACK by condition, the group before it
ACK orders GROUP audit WHERE user_id = 7 AND (body = 'GROUP billing')
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_audit` WHERE (user_id = 7 AND (body = 'GROUP billing')) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.uncertain: shop.orders_group_audit
--> effects.tally: (shop.orders_group_audit, 'acked')
--> pins: VERB

-- ACK by ids in a condition
ACK orders WHERE id IN (1, 2) GROUP audit
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_audit` WHERE (id IN (1, 2)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.orders_group_audit, (1, 2)))
--> effects.tally: (shop.orders_group_audit, 'acked')
--> pins: VERB

-- ACK of the only group
ACK clicks 7
--> Execute
--> sql: DELETE FROM `shop`.`clicks_group_stats` WHERE (id IN (7)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.clicks_group_stats, (7)))
--> effects.tally: (shop.clicks_group_stats, 'acked')
--> pins: VERB

-- ACK of the group's queue
ACK orders_group_billing 7
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (id IN (7)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.settled: ((shop.orders_group_billing, (7)))
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK of several groups and none named
ACK orders 7
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- ACK of an unknown group
ACK orders 7 GROUP fraud
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- ACK of an unknown group, the long way
ACK orders WHERE id = 7 GROUP fraud
--> error 1231 (42000): topic 'orders' has no consumer group 'fraud'; there are audit, billing

-- ACK of a topic without groups
ACK unread 7 GROUP billing
--> error 1231 (42000): topic 'unread' has no consumer group: CREATE GROUP name ON unread

-- ACK of a queue's group
ACK q 7 GROUP billing
--> error 1235 (42000): 'q' is a queue, not a topic

-- ACK of a topic that does not exist
ACK nope 7 GROUP billing
--> error 1146 (42S02): Topic 'shop.nope' doesn't exist

-- ACK of two groups
ACK orders 7 GROUP billing GROUP audit
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP audit' at line 1

-- ACK of a group without a name
ACK orders 7 GROUP
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP' at line 1

-- ACK of a group in quotes
ACK orders 7 GROUP 'billing'
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP 'billing'' at line 1

-- ACK with GROUP BY
ACK orders WHERE id = 7 GROUP BY id
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP BY id' at line 1

-- ACK with the group within the condition
ACK orders WHERE id = 7 GROUP billing AND user_id = 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP billing AND user_id = 1' at line 1

-- ACK by ids with GROUP BY
ACK orders 7 GROUP BY
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP BY' at line 1

-- ACK with the group within parentheses
ACK orders (7 GROUP billing)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP billing)' at line 1

-- ACK of a topic called group
ACK group 7
--> error 1146 (42S02): Queue 'shop.group' doesn't exist

-- ACK of a column called group
ACK orders WHERE `group` = 7 GROUP billing
--> Execute
--> sql: DELETE FROM `shop`.`orders_group_billing` WHERE (`group` = 7) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> effects.uncertain: shop.orders_group_billing
--> effects.tally: (shop.orders_group_billing, 'acked')
--> pins: VERB

-- ACK without a database
-- database: none
ACK orders 7 GROUP billing
--> error 1046 (3D000): No database selected

-- ACK with a limit
ACK orders WHERE id < 7 LIMIT 1 GROUP billing
--> error 1235 (42000): ACK ... LIMIT is not supported; use UPDATE q SET state = 'acked' WHERE ... LIMIT n

-- state as ack in a group's queue
UPDATE orders_group_billing SET state = 'acked' WHERE id = 7
--> error 1235 (42000): UPDATE does not end messages of a consumer group: ACK orders ... GROUP billing

-- Vitess's ack in a group's queue
UPDATE orders_group_billing SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (7) AND time_acked IS NULL
--> error 1235 (42000): UPDATE does not end messages of a consumer group: ACK orders ... GROUP billing

-- NACK
NACK orders 101 GROUP billing
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.orders_group_billing
--> effects.changed: ((shop.orders_group_billing, (101)))
--> effects.delay_ns: 0
--> effects.tally: (shop.orders_group_billing, 'nacked')
--> reporter_offset: 526
--> pins: VERB

-- NACK, the group before the clauses
NACK orders 101, 102 GROUP billing DELAY '30s' REASON 'HTTP 429'
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20224854545020343239227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'4854545020343239'), last_error = _utf8mb4 X'4854545020343239', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101, 102)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.orders_group_billing
--> effects.changed: ((shop.orders_group_billing, (101, 102)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.orders_group_billing, 'nacked')
--> effects.reason: HTTP 429
--> reporter_offset: 400
--> pins: VERB

-- NACK, the group between the clauses
NACK orders 101 DELAY '30s' GROUP billing REASON 'HTTP 429'
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20224854545020343239227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'4854545020343239'), last_error = _utf8mb4 X'4854545020343239', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.orders_group_billing
--> effects.changed: ((shop.orders_group_billing, (101)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.orders_group_billing, 'nacked')
--> effects.reason: HTTP 429
--> reporter_offset: 400
--> pins: VERB

-- NACK, the group behind the clauses
NACK orders 101 DELAY '30s' REASON 'GROUP audit' GROUP billing
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202247524f5550206175646974227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'47524f5550206175646974'), last_error = _utf8mb4 X'47524f5550206175646974', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.orders_group_billing
--> effects.changed: ((shop.orders_group_billing, (101)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.orders_group_billing, 'nacked')
--> effects.reason: GROUP audit
--> reporter_offset: 400
--> pins: VERB

-- NACK, the group before a condition
NACK orders GROUP billing WHERE user_id = 7 DELAY 5
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 5000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (user_id = 7) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.orders_group_billing
--> effects.uncertain: shop.orders_group_billing
--> effects.delay_ns: 5000000000
--> effects.tally: (shop.orders_group_billing, 'nacked')
--> reporter_offset: 399
--> pins: VERB

-- NACK with parameters
NACK orders ? GROUP billing DELAY ? REASON ?
--> Rebind
--> sql: NACK orders ? GROUP billing DELAY ? REASON ?
--> parameters: 3
--> column: None

-- NACK of several groups and none named
NACK orders 101
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- REJECT
REJECT orders 101 GROUP audit REASON 'bad JSON'
--> Execute
--> sql: UPDATE `shop`.`orders_group_audit` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'2c20226572726f72223a2022626164204a534f4e227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'626164204a534f4e'), last_error = _utf8mb4 X'626164204a534f4e', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101)) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.settled: ((shop.orders_group_audit, (101)))
--> effects.rejected: shop.orders_group_audit
--> effects.tally: (shop.orders_group_audit, 'rejected')
--> effects.reason: bad JSON
--> reporter_offset: 397
--> pins: VERB

-- RELEASE
RELEASE orders 101, 102 GROUP billing
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = LEAST(time_scheduled, (NOW_NS())), epoch = epoch - 1, lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (101, 102)) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.orders_group_billing
--> effects.changed: ((shop.orders_group_billing, (101, 102)))
--> effects.tally: (shop.orders_group_billing, 'released')
--> pins: VERB

-- RELEASE of a savepoint
RELEASE SAVEPOINT orders
--> Passthrough

-- RENEW
RENEW orders GROUP billing 101 FOR '5m'
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 300000000001 WHERE (id IN (101)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.changed: ((shop.orders_group_billing, (101)))
--> effects.delay_ns: 300000000000
--> effects.tally: (shop.orders_group_billing, 'renewed')
--> pins: VERB

-- RENEW, the group at the end
RENEW orders WHERE user_id = 7 FOR '5m' GROUP billing
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) + 300000000001 WHERE (user_id = 7) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.uncertain: shop.orders_group_billing
--> effects.delay_ns: 300000000000
--> effects.tally: (shop.orders_group_billing, 'renewed')
--> pins: VERB

-- RETRY
RETRY orders GROUP billing NOW
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) WHERE time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.orders_group_billing
--> pins: VERB

-- RETRY, the group behind NOW
RETRY orders NOW GROUP billing WHERE user_id = 7
--> Execute
--> sql: UPDATE `shop`.`orders_group_billing` SET time_next = (NOW_NS()) WHERE (user_id = 7) AND time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.orders_group_billing
--> pins: VERB

-- RETRY, the group at the end
RETRY clicks NOW WHERE page = 'a' GROUP stats
--> Execute
--> sql: UPDATE `shop`.`clicks_group_stats` SET time_next = (NOW_NS()) WHERE (page = 'a') AND time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.clicks_group_stats
--> pins: VERB

-- REDRIVE
REDRIVE orders GROUP audit
--> Redrive
--> mark: UPDATE `shop`.`orders_group_audit_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) AND (NOT (id) IN (SELECT there.id FROM `shop`.`orders_group_audit` AS there) OR (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)) ORDER BY time_next, id
--> copy: INSERT INTO `shop`.`orders_group_audit` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `body`, `queuegate_sought`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `body`, `queuegate_sought` FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805 AND NOT (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)
--> delete: DELETE FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.orders_group_audit
--> effects.uncertain: shop.orders_group_audit_dead
--> partly: True

-- REDRIVE, the group at the end
REDRIVE orders WHERE user_id = 7 LIMIT 5 GROUP audit
--> Redrive
--> mark: UPDATE `shop`.`orders_group_audit_dead` SET time_next = 9223372036854775805 WHERE (user_id = 7) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) AND (NOT (id) IN (SELECT there.id FROM `shop`.`orders_group_audit` AS there) OR (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)) ORDER BY time_next, id LIMIT 5
--> copy: INSERT INTO `shop`.`orders_group_audit` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `body`, `queuegate_sought`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `body`, `queuegate_sought` FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805 AND NOT (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)
--> delete: DELETE FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.orders_group_audit
--> effects.uncertain: shop.orders_group_audit_dead
--> partly: True

-- REDRIVE of the dead-letter queue
REDRIVE orders_group_audit_dead LIMIT 5
--> Redrive
--> mark: UPDATE `shop`.`orders_group_audit_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) AND (NOT (id) IN (SELECT there.id FROM `shop`.`orders_group_audit` AS there) OR (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)) ORDER BY time_next, id LIMIT 5
--> copy: INSERT INTO `shop`.`orders_group_audit` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `body`, `queuegate_sought`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `body`, `queuegate_sought` FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805 AND NOT (id, time_created) IN (SELECT there.id, there.time_created FROM `shop`.`orders_group_audit` AS there)
--> delete: DELETE FROM `shop`.`orders_group_audit_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.orders_group_audit
--> effects.uncertain: shop.orders_group_audit_dead
--> partly: True

-- REDRIVE where there are no dead letters yet
REDRIVE clicks
--> NoOperation
--> note_errno: 1146
--> note: Consumer group 'stats' has no dead letters

-- REDRIVE of several groups and none named
REDRIVE orders
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- REDRIVE of a dead-letter queue's group
REDRIVE orders_group_audit_dead GROUP audit
--> error 1235 (42000): 'orders_group_audit_dead' is a queue, not a topic

-- queue_ack of the only group
SELECT queue_ack('clicks', 7, 8)
--> ExecuteCounting
--> queue: shop.clicks_group_stats
--> counts.sql: DELETE FROM `shop`.`clicks_group_stats` WHERE (id IN (7, 8)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> counts.effects.settled: ((shop.clicks_group_stats, (7, 8)))
--> counts.effects.tally: (shop.clicks_group_stats, 'acked')
--> counts.pins: VERB
--> column: queue_ack('clicks', 7, 8)

-- queue_ack of a group's queue
SELECT queue_ack('orders_group_billing', 7) AS done
--> ExecuteCounting
--> queue: shop.orders_group_billing
--> counts.sql: DELETE FROM `shop`.`orders_group_billing` WHERE (id IN (7)) AND time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)
--> counts.effects.settled: ((shop.orders_group_billing, (7)))
--> counts.effects.tally: (shop.orders_group_billing, 'acked')
--> counts.pins: VERB
--> column: done

-- queue_ack of several groups
SELECT queue_ack('orders', 7)
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- queue_nack of the only group, called
CALL queue_nack('shop.clicks', 7, '30s', 'why')
--> Execute
--> sql: UPDATE `shop`.`clicks_group_stats` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a2022776879227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'776879'), last_error = _utf8mb4 X'776879', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (7)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.clicks_group_stats
--> effects.changed: ((shop.clicks_group_stats, (7)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.clicks_group_stats, 'nacked')
--> effects.reason: why
--> reporter_offset: 398
--> pins: VERB

-- EXPLAIN DELIVERY
EXPLAIN DELIVERY FOR orders GROUP billing WHERE id = 101
--> ExplainDelivery
--> queue: shop.orders_group_billing
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`orders_group_billing`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`orders_group_billing` WHERE (id = 101) ORDER BY id LIMIT 20
--> ids: (101)
--> limit: 20

-- EXPLAIN DELIVERY, the group at the end
explain delivery for orders where id in (101, 102) limit 3 group audit;
--> ExplainDelivery
--> queue: shop.orders_group_audit
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`orders_group_audit`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, (SELECT MIN(qg_other.id) FROM `shop`.`orders_group_audit` AS qg_other WHERE qg_other.time_acked IS NULL AND qg_other.`user_id` = `shop`.`orders_group_audit`.`user_id` AND qg_other.id < `shop`.`orders_group_audit`.id) AS qg_earlier, (SELECT MIN(qg_other.id) FROM `shop`.`orders_group_audit` AS qg_other WHERE qg_other.time_acked IS NULL AND qg_other.`user_id` = `shop`.`orders_group_audit`.`user_id` AND qg_other.id <> `shop`.`orders_group_audit`.id AND (qg_other.time_acked IS NULL AND qg_other.epoch > 0 AND qg_other.time_next > (NOW_NS()) AND MOD(qg_other.time_next, 1000) IN (1, 3))) AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`orders_group_audit` WHERE (id in (101, 102)) ORDER BY id LIMIT 3
--> ids: (101, 102)
--> limit: 3

-- EXPLAIN DELIVERY of the only group
EXPLAIN DELIVERY FOR clicks
--> ExplainDelivery
--> queue: shop.clicks_group_stats
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`clicks_group_stats`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`clicks_group_stats` WHERE time_acked IS NULL LIMIT 20
--> limit: 20

-- EXPLAIN DELIVERY of several groups and none named
EXPLAIN DELIVERY FOR orders
--> error 1231 (42000): topic 'orders' has several groups, say which is meant, a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g: audit, billing

-- SHOW CREATE QUEUE of a topic
SHOW CREATE QUEUE orders
--> error 1146 (42S02): Queue 'shop.orders' doesn't exist

-- SHOW CREATE QUEUE of a group's queue
SHOW CREATE QUEUE orders_group_billing
--> Show
--> view: CREATE_QUEUE
--> database: shop
--> name: orders_group_billing
