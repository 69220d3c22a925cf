-- DROP QUEUE
DROP QUEUE q
--> execute: DROP TABLE `shop`.`q`
--> catalog

-- DROP QUEUE that may not exist, and does
DROP QUEUE IF EXISTS shop.q;
--> execute: DROP TABLE `shop`.`q`
--> catalog

-- DROP QUEUE that may not exist
DROP QUEUE IF EXISTS nope
--> nothing to do, note 1051: Unknown queue 'shop.nope'

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
--> execute: TRUNCATE TABLE `shop`.`q`
--> uncertain shop.q

-- TRUNCATE of a table called queue
TRUNCATE queue;
--> pass through

-- TRUNCATE of what is no queue
TRUNCATE QUEUE nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- SHOW QUEUES
SHOW QUEUES
--> show queues of shop

-- SHOW QUEUES with a pattern
show queues like 'a\_b%';
--> show queues of shop like 'a\\_b%'

-- SHOW QUEUES of a database
SHOW QUEUES FROM other LIKE "q%"
--> show queues of other like 'q%'

-- SHOW QUEUES without a database
-- database: none
SHOW QUEUES
--> show queues of all databases

-- SHOW QUEUES WHERE
SHOW QUEUES WHERE subscribers > 0
--> error 1235 (42000): SHOW QUEUES WHERE is not supported; use SHOW QUEUES LIKE 'pattern'

-- SHOW QUEUES and more
SHOW QUEUES LIKE q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'q' at line 1 (LIKE takes a quoted pattern)

-- SHOW CREATE QUEUE
SHOW CREATE QUEUE `shop`.`q`
--> show create queue shop.q

-- SHOW CREATE QUEUE of none
SHOW CREATE QUEUE nope
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- SHOW QUEUE STATUS
SHOW QUEUE STATUS LIKE 'q'
--> error 1235 (42000): SHOW QUEUE STATUS is not supported by this version; see SHOW QUEUES, or count: SELECT state, COUNT(*) FROM q GROUP BY state

-- SHOW SUBSCRIPTIONS
SHOW SUBSCRIPTIONS
--> error 1235 (42000): SHOW SUBSCRIPTIONS is not supported by this version; open streams are in SHOW PROCESSLIST

-- SHOW QUEUE
SHOW QUEUE q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'q' at line 1 (there are SHOW QUEUES and SHOW CREATE QUEUE q)

-- SHOW PROCESSLIST
SHOW PROCESSLIST
--> show processlist

-- SHOW FULL PROCESSLIST
SHOW FULL PROCESSLIST;
--> show full processlist

-- SHOW TABLES
SHOW FULL TABLES LIKE 'q'
--> pass through

-- KILL
KILL 12
--> kill connection 12

-- KILL CONNECTION
KILL CONNECTION 12
--> kill connection 12

-- KILL HARD and SOFT, as in MariaDB
KILL HARD CONNECTION 12
--> kill connection 12

-- KILL SOFT QUERY
KILL SOFT QUERY 12
--> kill query 12

-- KILL QUERY
kill query 12;
--> kill query 12

-- KILL of an expression is the database's
KILL CONNECTION_ID()
--> pass through

-- KILL with more
KILL 12 13
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '13' at line 1

-- USE
USE other;
--> use other

-- USE, quoted
USE `my db`
--> use my db

-- USE of nothing
USE
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1

-- NACK
NACK q 103 DELAY 30 REASON 'HTTP 429'
--> error 1235 (42000): NACK is not supported by this version; to have a message sent again now: UPDATE q SET time_next = 0 WHERE id = 103

-- REJECT
REJECT q 105 REASON 'bad JSON'
--> error 1235 (42000): REJECT is not supported by this version; there are no dead-letter queues yet; to end a message: ACK q 105, or DELETE FROM q WHERE id = 105

-- RELEASE
RELEASE q 106
--> error 1235 (42000): RELEASE is not supported by this version; closing the stream gives its unacked messages back; or UPDATE q SET time_next = 0 WHERE id = 106

-- RELEASE SAVEPOINT is ordinary
RELEASE SAVEPOINT a
--> pass through

-- RENEW
RENEW q 107 FOR '5m'
--> error 1235 (42000): RENEW is not supported by this version; UPDATE q SET time_next = time_next + 300000000000 WHERE id = 107 holds a message 5 minutes longer

-- REDRIVE
REDRIVE q_dead LIMIT 5
--> error 1235 (42000): REDRIVE is not supported by this version; there are no dead-letter queues yet

-- RETRY
RETRY q NOW
--> error 1235 (42000): RETRY is not supported by this version; UPDATE q SET time_next = 0 WHERE time_acked IS NULL makes postponed messages due

-- ALTER QUEUE
ALTER QUEUE q SET (ack_wait = 5)
--> error 1235 (42000): ALTER QUEUE is not supported by this version; options are kept in the comment: ALTER TABLE q COMMENT = 'vitess_message,vt_ack_wait=60,...'

-- EXPLAIN DELIVERY
EXPLAIN DELIVERY FOR q WHERE id = 42
--> error 1235 (42000): EXPLAIN DELIVERY is not supported by this version; SELECT id, state, epoch, time_next FROM q WHERE id = 42 shows a message

-- EXPLAIN of a table called delivery
EXPLAIN delivery
--> pass through

-- CALL queue_ack
CALL queue_ack('q', 101)
--> error 1235 (42000): CALL queue_ack is not supported by this version; use ACK q 101, or UPDATE q SET state = 'acked' WHERE id = 101

-- CALL of another procedure
CALL queue_report('q')
--> pass through
--> transaction opaque

-- DESCRIBE
DESCRIBE q
--> pass through
