-- one table
SELECT * FROM queuegate.queues
--> read: SELECT * FROM <queues> AS `queues`

-- a condition and an order
SELECT queue, ready FROM queuegate.queues WHERE ready > 0 ORDER BY ready DESC LIMIT 3;
--> read: SELECT queue, ready FROM <queues> AS `queues` WHERE ready > 0 ORDER BY ready DESC LIMIT 3;

-- aliases
SELECT a.queue, b.user FROM queuegate.queues AS a JOIN queuegate.subscriptions b ON a.queue = b.queue
--> read: SELECT a.queue, b.user FROM <queues> AS a JOIN <subscriptions> b ON a.queue = b.queue

-- quoted names
SELECT `queues`.ready FROM `queuegate`.`queues` WHERE 1
--> read: SELECT `queues`.ready FROM <queues> AS `queues` WHERE 1

-- columns by their full name
SELECT queuegate.queues.ready FROM queuegate . queues GROUP BY queuegate.queues.ready
--> read: SELECT `queues`.ready FROM <queues> AS `queues` GROUP BY `queues`.ready

-- a list of tables
SELECT COUNT(*) FROM t, queuegate.in_flight, (queuegate.queues q JOIN u USING (queue))
--> read: SELECT COUNT(*) FROM t, <in_flight> AS `in_flight`, (<queues> q JOIN u USING (queue))

-- subqueries
SELECT * FROM (SELECT queue FROM queuegate.queues) x WHERE queue IN (SELECT queue FROM queuegate.subscriptions)
--> read: SELECT * FROM (SELECT queue FROM <queues> AS `queues`) x WHERE queue IN (SELECT queue FROM <subscriptions> AS `subscriptions`)

-- a common table
WITH x AS (SELECT * FROM queuegate.queues) SELECT * FROM x
--> read: WITH x AS (SELECT * FROM <queues> AS `queues`) SELECT * FROM x

-- its plan
EXPLAIN SELECT * FROM queuegate.queues
--> read: EXPLAIN SELECT * FROM <queues> AS `queues`

-- a union
(SELECT queue FROM queuegate.queues) UNION (SELECT queue FROM queuegate.subscriptions)
--> read: (SELECT queue FROM <queues> AS `queues`) UNION (SELECT queue FROM <subscriptions> AS `subscriptions`)

-- in a string only
SELECT 'FROM queuegate.queues'
--> pass through

-- a column of a table called so
SELECT queuegate.queues FROM queuegate
--> pass through

-- another table of that database
SELECT * FROM queuegate.other
--> pass through

-- a parameter
SELECT * FROM queuegate.queues WHERE queue = ?
--> error 1235 (42000): a statement on the tables of queuegate takes no ?; write the value into the statement

-- DESCRIBE of one
DESCRIBE queuegate.queues;
--> show system columns of queues

-- SHOW TABLES of them
SHOW TABLES FROM queuegate
--> show system tables

-- SHOW FULL TABLES like
SHOW FULL TABLES IN `queuegate` LIKE 'q%'
--> show full system tables like 'q%'

-- SHOW COLUMNS of one
SHOW COLUMNS FROM queuegate.in_flight
--> show system columns of in_flight

-- SHOW FULL COLUMNS, the other way
SHOW FULL COLUMNS FROM subscriptions FROM queuegate
--> show full system columns of subscriptions

-- SHOW TABLES of another
SHOW TABLES FROM other
--> pass through

-- what tools ask of a table
SHOW CREATE TABLE `queuegate`.`queues`
--> show system create table of queues

-- its keys
SHOW KEYS FROM queues IN queuegate
--> show system indexes of queues

-- the keys, qualified
SHOW INDEX FROM queuegate.in_flight
--> show system indexes of in_flight

-- of all tables
SHOW TABLE STATUS FROM queuegate LIKE 'q%'
--> show system table status like 'q%'

-- the database
SHOW CREATE DATABASE queuegate
--> show system create database

-- a table that is not there
SHOW CREATE TABLE queuegate.other
--> pass through

-- the keys of a table elsewhere
SHOW INDEX FROM queues FROM shop
--> pass through

-- information_schema, asked for them
SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'queuegate' AND table_name = 'queues'
--> read: SELECT COUNT(*) FROM <TABLES> AS `tables` WHERE table_schema = 'queuegate' AND table_name = 'queues'

-- information_schema, with an alias and full names
SELECT c.column_name, INFORMATION_SCHEMA.`TABLES`.engine FROM INFORMATION_SCHEMA.`TABLES`, INFORMATION_SCHEMA.COLUMNS c WHERE 'queuegate' = c.table_schema
--> read: SELECT c.column_name, `TABLES`.engine FROM <TABLES> AS `TABLES`, <COLUMNS> c WHERE 'queuegate' = c.table_schema

-- information_schema, asked for others
SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'queuegate_meta'
--> pass through

-- information_schema, a table that lists nothing of theirs
SELECT * FROM information_schema.statistics WHERE table_schema = 'queuegate'
--> pass through

-- information_schema with a parameter
SELECT * FROM information_schema.tables WHERE table_schema = 'queuegate' AND table_name = ?
--> pass through

-- several statements in a text that is prepared
SELECT queue FROM queuegate.queues; DROP TABLE account
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'DROP TABLE account' at line 1

-- an end is no second statement
SELECT queue FROM queuegate.queues;;
--> read: SELECT queue FROM <queues> AS `queues`;;

-- topics and their groups
SELECT t.topic, queuegate.groups.unread FROM queuegate.topics t JOIN queuegate.groups USING (topic) WHERE queuegate.groups.unread > 0
--> read: SELECT t.topic, `groups`.unread FROM <topics> t JOIN <groups> AS `groups` USING (topic) WHERE `groups`.unread > 0

-- what groups have out
SELECT group_name, id FROM queuegate.group_in_flight ORDER BY seconds_left
--> read: SELECT group_name, id FROM <group_in_flight> AS `group_in_flight` ORDER BY seconds_left

-- a table without a qualifier in its own database, under its own name
-- database: queuegate
SELECT queues.queue FROM queues WHERE queues.ready > 0
--> read: SELECT queues.queue FROM <queues> AS `queues` WHERE queues.ready > 0
