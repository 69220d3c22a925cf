-- DROP QUEUE
DROP QUEUE q
--> Execute
--> sql: DROP TABLE `shop`.`q`
--> effects.catalog: shop.q
--> effects.drops: shop.q

-- DROP QUEUE that may not exist, and does
DROP QUEUE IF EXISTS shop.q;
--> Execute
--> sql: DROP TABLE IF EXISTS `shop`.`q`
--> effects.catalog: shop.q
--> effects.drops: shop.q

-- DROP QUEUE that may not exist
DROP QUEUE IF EXISTS nope
--> NoOperation
--> note_errno: 1051
--> note: Unknown queue 'shop.nope'

-- DROP QUEUE that does not exist
DROP QUEUE nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- DROP QUEUE of a broken one
DROP QUEUE broken
--> error 1347 (HY000): 'broken' is not a queue: time_acked missing from message table: broken

-- DROP QUEUE of two
DROP QUEUE q, orders
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', orders' at line 1 (DROP QUEUE takes one queue)

-- TRUNCATE QUEUE
TRUNCATE QUEUE q
--> Execute
--> sql: DELETE FROM `shop`.`q`
--> effects.uncertain: shop.q
--> effects.catalog: True
--> pins: VERB

-- TRUNCATE of a table called queue
TRUNCATE queue;
--> Passthrough

-- TRUNCATE of what is no queue
TRUNCATE QUEUE nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- SHOW QUEUES
SHOW QUEUES
--> Show
--> view: QUEUES
--> database: shop

-- SHOW QUEUES with a pattern
show queues like 'a\_b%';
--> Show
--> view: QUEUES
--> database: shop
--> like: a\_b%

-- SHOW QUEUES of a database
SHOW QUEUES FROM other LIKE "q%"
--> Show
--> view: QUEUES
--> database: other
--> like: q%

-- SHOW QUEUES without a database
-- database: none
SHOW QUEUES
--> Show
--> view: QUEUES

-- SHOW QUEUES WHERE
SHOW QUEUES WHERE subscribers > 0
--> error 1235 (42000): SHOW QUEUES WHERE is not supported; use SHOW QUEUES LIKE 'pattern'

-- SHOW QUEUES and more
SHOW QUEUES LIKE q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'q' at line 1 (LIKE takes a quoted pattern)

-- SHOW CREATE QUEUE
SHOW CREATE QUEUE `shop`.`q`
--> Show
--> view: CREATE_QUEUE
--> database: shop
--> name: q

-- SHOW CREATE QUEUE of none
SHOW CREATE QUEUE nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- SHOW QUEUE STATUS
SHOW QUEUE STATUS LIKE 'q'
--> Show
--> view: QUEUE_STATUS
--> database: shop
--> like: q

-- SHOW QUEUE STATUS of a database
SHOW QUEUE STATUS FROM other
--> Show
--> view: QUEUE_STATUS
--> database: other

-- SHOW SUBSCRIPTIONS
SHOW SUBSCRIPTIONS
--> Show
--> view: SUBSCRIPTIONS
--> database: shop

-- SHOW SUBSCRIPTIONS of some queues
-- database: none
SHOW SUBSCRIPTIONS IN other LIKE 'q%'
--> Show
--> view: SUBSCRIPTIONS
--> database: other
--> like: q%

-- SHOW SUBSCRIPTIONS WHERE
SHOW SUBSCRIPTIONS WHERE 1
--> error 1235 (42000): SHOW SUBSCRIPTIONS WHERE is not supported; use SHOW SUBSCRIPTIONS LIKE 'pattern'

-- EXPLAIN DELIVERY of a message
EXPLAIN DELIVERY FOR q WHERE id = 42
--> ExplainDelivery
--> queue: shop.q
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`q` WHERE (id = 42) ORDER BY id LIMIT 20
--> ids: (42)
--> limit: 20

-- EXPLAIN DELIVERY of several
EXPLAIN DELIVERY FOR shop.q WHERE id IN (1, 2) LIMIT 5;
--> ExplainDelivery
--> queue: shop.q
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`q` WHERE (id IN (1, 2)) ORDER BY id LIMIT 5
--> ids: (1, 2)
--> limit: 5

-- EXPLAIN DELIVERY of others
EXPLAIN DELIVERY FOR q WHERE user_id = 7 AND payload LIKE 'a%' LIMIT 100
--> ExplainDelivery
--> queue: shop.q
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`q` WHERE (user_id = 7 AND payload LIKE 'a%') ORDER BY id LIMIT 100
--> limit: 100

-- EXPLAIN DELIVERY of any
EXPLAIN DELIVERY FOR q
--> ExplainDelivery
--> queue: shop.q
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`q` WHERE time_acked IS NULL LIMIT 20
--> limit: 20

-- EXPLAIN DELIVERY of too many
EXPLAIN DELIVERY FOR q LIMIT 1001
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (EXPLAIN DELIVERY takes a LIMIT from 1 to 1000)

-- EXPLAIN DELIVERY with a parameter
EXPLAIN DELIVERY FOR q WHERE id = ?
--> error 1235 (42000): EXPLAIN DELIVERY takes no ?; write the value into the statement

-- EXPLAIN DELIVERY in an order
EXPLAIN DELIVERY FOR q WHERE id > 1 ORDER BY id
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ORDER BY id' at line 1 (EXPLAIN DELIVERY FOR q [WHERE condition] [LIMIT n])

-- EXPLAIN DELIVERY of what is no queue
EXPLAIN DELIVERY FOR nope WHERE id = 1
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- SHOW QUEUE
SHOW QUEUE q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'q' at line 1 (there are SHOW QUEUES, SHOW QUEUE STATUS, SHOW QUEUE q OPTIONS, SHOW QUEUE q RANGES, SHOW CREATE QUEUE q)

-- SHOW PROCESSLIST
SHOW PROCESSLIST
--> Show
--> view: PROCESSLIST

-- SHOW FULL PROCESSLIST
SHOW FULL PROCESSLIST;
--> Show
--> view: FULL_PROCESSLIST

-- SHOW TABLES
SHOW FULL TABLES LIKE 'q'
--> Passthrough

-- KILL
KILL 12
--> Kill
--> connection_id: 12
--> query_only: False

-- KILL CONNECTION
KILL CONNECTION 12
--> Kill
--> connection_id: 12
--> query_only: False

-- KILL HARD and SOFT, as in MariaDB
KILL HARD CONNECTION 12
--> Kill
--> connection_id: 12
--> query_only: False

-- KILL SOFT QUERY
KILL SOFT QUERY 12
--> Kill
--> connection_id: 12
--> query_only: True

-- KILL QUERY
kill query 12;
--> Kill
--> connection_id: 12
--> query_only: True

-- KILL of an expression is the database's
KILL CONNECTION_ID()
--> Passthrough

-- KILL with more
KILL 12 13
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '13' at line 1

-- USE
USE other;
--> UseDatabase
--> database: other

-- USE, quoted
USE `my db`
--> UseDatabase
--> database: my db

-- USE of nothing is the database's to refuse
USE
--> Passthrough

-- RELEASE SAVEPOINT is ordinary
RELEASE SAVEPOINT a
--> Passthrough

-- ALTER QUEUE
ALTER QUEUE q SET (ack_wait = 5, max_rate = '10/s',);
--> Execute
--> sql: ALTER TABLE `shop`.`q` COMMENT='vitess_message,vt_ack_wait=5,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_rate=10,queuegate_table=q'
--> effects.catalog: shop.q

-- ALTER QUEUE in another database, with what needs an index
alter queue other.q2 set (max_concurrency = 4, order_key = User_Id)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'User_Id)' at line 1 (an option takes a number or a quoted string)

-- ALTER QUEUE with what needs an index
ALTER QUEUE other.q2 SET (max_concurrency = 4, order_key = 'User_Id', on_failure = 'skip')
--> Execute
--> sql: ALTER TABLE `other`.`q2` ADD KEY `queuegate_held` (time_acked, time_next), ADD KEY `queuegate_order` (time_acked, `user_id`, id), ADD KEY `queuegate_order_held` (time_acked, `user_id`, time_next), COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_concurrency=4,order_key=User_Id,on_failure=skip,queuegate_table=q2'
--> effects.catalog: other.q2

-- ALTER QUEUE back to the defaults keeps what is not ours in the comment
ALTER QUEUE limited SET (max_rate = DEFAULT, order_key = NULL)
--> Execute
--> sql: ALTER TABLE `shop`.`limited` DROP KEY `queuegate_order`, DROP KEY `queuegate_order_held`, COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_concurrency=3,it''s ours,vt_other=1,queuegate_table=limited'
--> effects.catalog: shop.limited

-- ALTER QUEUE with another key
ALTER QUEUE limited SET (order_key = '*')
--> Execute
--> sql: ALTER TABLE `shop`.`limited` DROP KEY `queuegate_order`, DROP KEY `queuegate_order_held`, ADD KEY `queuegate_order` (time_acked, id), COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_rate=5,max_concurrency=3,order_key=*,it''s ours,vt_other=1,queuegate_table=limited'
--> effects.catalog: shop.limited

-- ALTER QUEUE PAUSE
ALTER QUEUE q PAUSE;
--> Execute
--> sql: ALTER TABLE `shop`.`q` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,paused=1,queuegate_table=q'
--> effects.catalog: shop.q

-- ALTER QUEUE RESUME
ALTER QUEUE q RESUME
--> Execute
--> sql: ALTER TABLE `shop`.`q` COMMENT='vitess_message,vt_ack_wait=30,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=q'
--> effects.catalog: shop.q

-- ALTER QUEUE with an option that there is not
ALTER QUEUE q SET (colour = 'red')
--> error 1231 (42000): unknown queue option 'colour'; allowed: ack_wait, alarm_after, archive, backoff, batch_size, cache_size, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_backoff, max_concurrency, max_rate, message_cols, min_backoff, on_failure, order_key, paused, poll_interval, prefetch, purge_after, sharding_key, sticky_wait

-- ALTER QUEUE: an unknown option has no default either
ALTER QUEUE q SET (colour = DEFAULT)
--> error 1231 (42000): unknown queue option 'colour'; allowed: ack_wait, alarm_after, archive, backoff, batch_size, cache_size, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_backoff, max_concurrency, max_rate, message_cols, min_backoff, on_failure, order_key, paused, poll_interval, prefetch, purge_after, sharding_key, sticky_wait

-- ALTER QUEUE to what contradicts an option it has
ALTER QUEUE q SET (min_backoff = '10s', max_backoff = '5s')
--> error 1231 (42000): max_backoff is shorter than min_backoff (which is ack_wait when not given): 5s and 10s

-- ALTER QUEUE ordered by what it does not have
ALTER QUEUE q SET (order_key = 'nope')
--> error 1231 (42000): order_key: 'nope' is not a column of the queue

-- ALTER QUEUE ordered by what changes
ALTER QUEUE q SET (order_key = 'epoch')
--> error 1231 (42000): order_key: 'epoch' is the queue's own column; name one of yours, or '*' for the whole queue

-- ALTER QUEUE of what is no queue
ALTER QUEUE nope PAUSE
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- ALTER QUEUE of nothing in particular
ALTER QUEUE q ADD COLUMN a INT
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ADD COLUMN a INT' at line 1 (ALTER QUEUE q takes one of SET (option = value, ...), PAUSE, RESUME, ADD SHARDING KEY (column), DROP SHARDING KEY)

-- ALTER QUEUE with two things at once
ALTER QUEUE q PAUSE, RESUME
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', RESUME' at line 1 (ALTER QUEUE q takes one of SET (option = value, ...), PAUSE, RESUME, ADD SHARDING KEY (column), DROP SHARDING KEY)

-- EXPLAIN DELIVERY
EXPLAIN DELIVERY FOR q WHERE id = 42
--> ExplainDelivery
--> queue: shop.q
--> sql: SELECT (NOW_NS()) AS qg_now, `shop`.`q`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier, NULL AS qg_held, NULL AS qg_failed_attempts FROM `shop`.`q` WHERE (id = 42) ORDER BY id LIMIT 20
--> ids: (42)
--> limit: 20

-- EXPLAIN of a table called delivery
EXPLAIN delivery
--> Passthrough

-- CALL of another procedure
CALL queue_report('q')
--> Passthrough
--> effects.transaction: OPAQUE

-- DESCRIBE
DESCRIBE q
--> Passthrough

-- the options of a queue
SHOW QUEUE q OPTIONS;
--> Show
--> view: QUEUE_OPTIONS
--> database: shop
--> name: q

-- the options of a queue of another database
show queue `other`.Q2 options
--> Show
--> view: QUEUE_OPTIONS
--> database: other
--> name: q2

-- a queue called status, and no queue of that name
SHOW QUEUE status OPTIONS
--> error 1146 (42S02): Queue 'shop.status' doesn't exist
