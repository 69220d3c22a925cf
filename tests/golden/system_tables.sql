-- one table
SELECT * FROM queuegate.queues
--> ReadSystem
--> pieces: ('SELECT * FROM ', QUEUE_STATUS, ' AS `queues`', '')

-- a condition and an order
SELECT queue, ready FROM queuegate.queues WHERE ready > 0 ORDER BY ready DESC LIMIT 3;
--> ReadSystem
--> pieces: ('SELECT queue, ready FROM ', QUEUE_STATUS, ' AS `queues`', ' WHERE ready > 0 ORDER BY ready DESC LIMIT 3;')

-- aliases
SELECT a.queue, b.user FROM queuegate.queues AS a JOIN queuegate.subscriptions b ON a.queue = b.queue
--> ReadSystem
--> pieces: ('SELECT a.queue, b.user FROM ', QUEUE_STATUS, ' AS a JOIN ', SUBSCRIPTIONS, ' b ON a.queue = b.queue')

-- quoted names
SELECT `queues`.ready FROM `queuegate`.`queues` WHERE 1
--> ReadSystem
--> pieces: ('SELECT `queues`.ready FROM ', QUEUE_STATUS, ' AS `queues`', ' WHERE 1')

-- columns by their full name
SELECT queuegate.queues.ready FROM queuegate . queues GROUP BY queuegate.queues.ready
--> ReadSystem
--> pieces: ('SELECT `queues`', '.ready FROM ', QUEUE_STATUS, ' AS `queues`', ' GROUP BY `queues`', '.ready')

-- a list of tables
SELECT COUNT(*) FROM t, queuegate.in_flight, (queuegate.queues q JOIN u USING (queue))
--> ReadSystem
--> pieces: ('SELECT COUNT(*) FROM t, ', IN_FLIGHT, ' AS `in_flight`', ', (', QUEUE_STATUS, ' q JOIN u USING (queue))')

-- subqueries
SELECT * FROM (SELECT queue FROM queuegate.queues) x WHERE queue IN (SELECT queue FROM queuegate.subscriptions)
--> ReadSystem
--> pieces: ('SELECT * FROM (SELECT queue FROM ', QUEUE_STATUS, ' AS `queues`', ') x WHERE queue IN (SELECT queue FROM ', SUBSCRIPTIONS, ' AS `subscriptions`', ')')

-- a common table
WITH x AS (SELECT * FROM queuegate.queues) SELECT * FROM x
--> ReadSystem
--> pieces: ('WITH x AS (SELECT * FROM ', QUEUE_STATUS, ' AS `queues`', ') SELECT * FROM x')

-- its plan
EXPLAIN SELECT * FROM queuegate.queues
--> ReadSystem
--> pieces: ('EXPLAIN SELECT * FROM ', QUEUE_STATUS, ' AS `queues`', '')

-- a union
(SELECT queue FROM queuegate.queues) UNION (SELECT queue FROM queuegate.subscriptions)
--> ReadSystem
--> pieces: ('(SELECT queue FROM ', QUEUE_STATUS, ' AS `queues`', ') UNION (SELECT queue FROM ', SUBSCRIPTIONS, ' AS `subscriptions`', ')')

-- in a string only
SELECT 'FROM queuegate.queues'
--> Passthrough

-- a column of a table called so
SELECT queuegate.queues FROM queuegate
--> Passthrough

-- another table of that database
SELECT * FROM queuegate.other
--> Passthrough

-- a parameter
SELECT * FROM queuegate.queues WHERE queue = ?
--> error 1235 (42000): a statement on the tables of queuegate takes no ?; write the value into the statement

-- DESCRIBE of one
DESCRIBE queuegate.queues;
--> ShowSystem
--> what: COLUMNS
--> view: QUEUE_STATUS

-- SHOW TABLES of them
SHOW TABLES FROM queuegate
--> ShowSystem
--> what: TABLES

-- SHOW FULL TABLES like
SHOW FULL TABLES IN `queuegate` LIKE 'q%'
--> ShowSystem
--> what: TABLES
--> like: q%
--> full: True

-- SHOW COLUMNS of one
SHOW COLUMNS FROM queuegate.in_flight
--> ShowSystem
--> what: COLUMNS
--> view: IN_FLIGHT

-- SHOW FULL COLUMNS, the other way
SHOW FULL COLUMNS FROM subscriptions FROM queuegate
--> ShowSystem
--> what: COLUMNS
--> view: SUBSCRIPTIONS
--> full: True

-- SHOW TABLES of another
SHOW TABLES FROM other
--> Passthrough

-- what tools ask of a table
SHOW CREATE TABLE `queuegate`.`queues`
--> ShowSystem
--> what: CREATE_TABLE
--> view: QUEUE_STATUS

-- its keys
SHOW KEYS FROM queues IN queuegate
--> ShowSystem
--> what: INDEXES
--> view: QUEUE_STATUS

-- the keys, qualified
SHOW INDEX FROM queuegate.in_flight
--> ShowSystem
--> what: INDEXES
--> view: IN_FLIGHT

-- of all tables
SHOW TABLE STATUS FROM queuegate LIKE 'q%'
--> ShowSystem
--> what: TABLE_STATUS
--> like: q%

-- the database
SHOW CREATE DATABASE queuegate
--> ShowSystem
--> what: CREATE_DATABASE

-- a table that is not there
SHOW CREATE TABLE queuegate.other
--> Passthrough

-- the keys of a table elsewhere
SHOW INDEX FROM queues FROM shop
--> Passthrough

-- information_schema, asked for them
SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'queuegate' AND table_name = 'queues'
--> ReadSystem
--> pieces: ('SELECT COUNT(*) FROM ', TABLES, ' AS `tables`', " WHERE table_schema = 'queuegate' AND table_name = 'queues'")

-- information_schema, with an alias and full names
SELECT c.column_name, INFORMATION_SCHEMA.`TABLES`.engine FROM INFORMATION_SCHEMA.`TABLES`, INFORMATION_SCHEMA.COLUMNS c WHERE 'queuegate' = c.table_schema
--> ReadSystem
--> pieces: ('SELECT c.column_name, `TABLES`', '.engine FROM ', TABLES, ' AS `TABLES`', ', ', COLUMNS, " c WHERE 'queuegate' = c.table_schema")

-- information_schema, asked for others
SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'queuegate_meta'
--> Passthrough

-- information_schema, a table that lists nothing of theirs
SELECT * FROM information_schema.statistics WHERE table_schema = 'queuegate'
--> Passthrough

-- information_schema with a parameter
SELECT * FROM information_schema.tables WHERE table_schema = 'queuegate' AND table_name = ?
--> Passthrough

-- several statements in a text that is prepared
SELECT queue FROM queuegate.queues; DROP TABLE account
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'DROP TABLE account' at line 1

-- an end is no second statement
SELECT queue FROM queuegate.queues;;
--> ReadSystem
--> pieces: ('SELECT queue FROM ', QUEUE_STATUS, ' AS `queues`', ';;')

-- topics and their groups
SELECT t.topic, queuegate.groups.unread FROM queuegate.topics t JOIN queuegate.groups USING (topic) WHERE queuegate.groups.unread > 0
--> ReadSystem
--> pieces: ('SELECT t.topic, `groups`', '.unread FROM ', TOPICS, ' t JOIN ', GROUPS, ' AS `groups`', ' USING (topic) WHERE `groups`', '.unread > 0')

-- what groups have out
SELECT group_name, id FROM queuegate.group_in_flight ORDER BY seconds_left
--> ReadSystem
--> pieces: ('SELECT group_name, id FROM ', GROUP_IN_FLIGHT, ' AS `group_in_flight`', ' ORDER BY seconds_left')

-- a table without a qualifier in its own database, under its own name
-- database: queuegate
SELECT queues.queue FROM queues WHERE queues.ready > 0
--> ReadSystem
--> pieces: ('SELECT queues.queue FROM ', QUEUE_STATUS, ' AS `queues`', ' WHERE queues.ready > 0')
