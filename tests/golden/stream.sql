-- all columns
SELECT * FROM STREAM q
--> Subscribe
--> request.queue: shop.q

-- a qualified queue
select * from stream other.q2;
--> Subscribe
--> request.queue: other.q2

-- some columns, in any case and order
SELECT payload, ID, `epoch`, q.user_id, shop.q.priority FROM STREAM q
--> Subscribe
--> request.queue: shop.q
--> request.columns: ('payload', 'ID', 'epoch', 'user_id', 'priority')

-- all and more
SELECT *, epoch FROM STREAM q
--> Subscribe
--> request.queue: shop.q
--> request.columns: ('id', 'user_id', 'payload', 'epoch')

-- all, qualified
SELECT q.* FROM STREAM `q`
--> Subscribe
--> request.queue: shop.q

-- LIMIT
SELECT * FROM STREAM q LIMIT 10
--> Subscribe
--> request.queue: shop.q
--> request.limit: 10

-- LIMIT 0
SELECT * FROM STREAM q LIMIT 0
--> Subscribe
--> request.queue: shop.q
--> request.limit: 0

-- long poll
SELECT * FROM STREAM q LIMIT 10 WAIT 5
--> Subscribe
--> request.queue: shop.q
--> request.limit: 10
--> request.wait_mode: WAIT
--> request.wait_seconds: 5.0

-- wait for part of a second
SELECT * FROM STREAM q WAIT 0.5
--> Subscribe
--> request.queue: shop.q
--> request.wait_mode: WAIT
--> request.wait_seconds: 0.5

-- wait for a duration
SELECT * FROM STREAM q WAIT '2m'
--> Subscribe
--> request.queue: shop.q
--> request.wait_mode: WAIT
--> request.wait_seconds: 120.0

-- NOWAIT
SELECT id FROM STREAM q LIMIT 10 NOWAIT
--> Subscribe
--> request.queue: shop.q
--> request.columns: ('id')
--> request.limit: 10
--> request.wait_mode: NOWAIT

-- options
SELECT * FROM STREAM q WITH (prefetch = 10, ack_wait = '2m')
--> Subscribe
--> request.queue: shop.q
--> request.prefetch: 10
--> request.ack_wait_ns: 120000000000

-- clauses in another order, a trailing comma
SELECT * FROM STREAM q WITH (`ack_wait` = 90,) LIMIT 5
--> Subscribe
--> request.queue: shop.q
--> request.limit: 5
--> request.ack_wait_ns: 90000000000

-- bound values
SELECT * FROM STREAM q LIMIT ? WAIT ?
--> Subscribe
--> request.queue: shop.q
--> request.wait_mode: WAIT
--> parameters: ('limit', 'wait')

-- bound values in another order
SELECT * FROM STREAM q WAIT ? LIMIT ?
--> Subscribe
--> request.queue: shop.q
--> request.wait_mode: WAIT
--> parameters: ('wait', 'limit')

-- comments between
SELECT /*+ NO_INDEX_MERGE(q) */ * FROM /* the */ STREAM -- of
  q
--> Subscribe
--> request.queue: shop.q

-- Vitess's spelling
STREAM * FROM q
--> Subscribe
--> request.queue: shop.q

-- Vitess's spelling with columns
STREAM id, payload FROM shop.q LIMIT 3
--> Subscribe
--> request.queue: shop.q
--> request.columns: ('id', 'payload')
--> request.limit: 3

-- a table called stream
SELECT * FROM stream
--> Passthrough

-- a table called stream, with clauses
SELECT * FROM stream WHERE id = 3
--> Passthrough

-- a table called stream, with an alias
SELECT s.id FROM stream AS s
--> Passthrough

-- a table called stream, with a bare alias and clauses
SELECT s.id FROM stream s WHERE s.id = 3
--> Passthrough

-- a table called stream, joined
SELECT s.id FROM stream s JOIN account a ON a.id = s.id
--> Passthrough

-- a table called stream, back-quoted
SELECT * FROM `stream` q
--> Passthrough

-- a table called stream, limited
SELECT * FROM stream LIMIT 10
--> Passthrough

-- in a string
SELECT 'FROM STREAM q'
--> Passthrough

-- in a comment
SELECT 1 /* FROM STREAM q */
--> Passthrough

-- an unknown queue, or a table and its alias: the database knows
SELECT * FROM STREAM s
--> error 1146 (42S02): Queue 'shop.s' doesn't exist [perhaps an alias]

-- an unknown queue, certainly
SELECT * FROM STREAM s NOWAIT
--> error 1146 (42S02): Queue 'shop.s' doesn't exist

-- an unknown queue, qualified
SELECT * FROM STREAM shop.s WHERE id = 1
--> error 1146 (42S02): Queue 'shop.s' doesn't exist

-- an unknown queue in Vitess's spelling
STREAM * FROM s
--> error 1146 (42S02): Queue 'shop.s' doesn't exist

-- a table that cannot be served
SELECT * FROM STREAM broken
--> error 1347 (HY000): 'broken' is not a queue: time_acked missing from message table: broken

-- no database
-- database: none
SELECT * FROM STREAM q
--> error 1046 (3D000): No database selected

-- an unknown column
SELECT id, nope FROM STREAM q
--> error 1054 (42S22): Unknown column 'nope' in 'field list'

-- a column of another table
SELECT orders.id FROM STREAM q
--> error 1054 (42S22): Unknown column 'orders.id' in 'field list'

-- WHERE
SELECT * FROM STREAM q WHERE user_id < 100
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ('`user_id` < 100')
--> filter.text: user_id < 100

-- WHERE, with values bound, before and after other clauses
SELECT * FROM STREAM q LIMIT ? WHERE q.user_id IN (?, 2) OR `payload` LIKE 'a''b%' AND NOT shop.q.priority = 3 WAIT ?
--> Subscribe
--> request.queue: shop.q
--> request.wait_mode: WAIT
--> parameters: ('limit', 'where', 'wait')
--> filter.parts: ('`user_id` IN ( ', " , 2 ) OR `payload` LIKE 'a''b%' AND NOT `priority` = 3")
--> filter.text: q.user_id IN (?, 2) OR `payload` LIKE 'a''b%' AND NOT shop.q.priority = 3

-- WHERE in Vitess's spelling
STREAM * FROM q WHERE user_id = 1 WITH (prefetch = 3)
--> Subscribe
--> request.queue: shop.q
--> request.prefetch: 3
--> filter.parts: ('`user_id` = 1')
--> filter.text: user_id = 1

-- WHERE, double quotes
SELECT * FROM STREAM q WHERE payload = "it's"
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("`payload` = 'it''s'")
--> filter.text: payload = "it's"

-- WHERE, double quotes are names
-- modes: ANSI_QUOTES
SELECT * FROM STREAM q WHERE "payload" = 'a\\b'
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("`payload` = 'a\\\\b'")
--> filter.text: "payload" = 'a\\b'

-- WHERE, backslashes are plain
-- modes: NO_BACKSLASH_ESCAPES
SELECT * FROM STREAM q WHERE payload LIKE 'x%' AND user_id = 1
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("`payload` LIKE 'x%' ESCAPE '' AND `user_id` = 1")
--> filter.text: payload LIKE 'x%' AND user_id = 1
--> filter.session_parts: ("`payload` LIKE 'x%' AND `user_id` = 1")

-- WHERE, arrows
SELECT * FROM STREAM q WHERE payload->>'$.a' = 1 OR payload -> '$.b' IS NULL
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("JSON_UNQUOTE(JSON_EXTRACT(`payload`, '$.a')) = 1 OR JSON_EXTRACT(`payload`, '$.b') IS NULL")
--> filter.text: payload->>'$.a' = 1 OR payload -> '$.b' IS NULL

-- WHERE, functions and operators
SELECT * FROM STREAM q WHERE LEFT(payload, 1) = 'a' AND CASE WHEN user_id BETWEEN 1 AND 3 THEN TRUE ELSE user_id IS NULL END || CAST(payload AS DECIMAL(10,2)) > .5
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("LEFT( `payload` , 1 ) = 'a' AND CASE WHEN `user_id` BETWEEN 1 AND 3 THEN TRUE ELSE `user_id` IS NULL END || CAST( `payload` AS DECIMAL ( 10 , 2 ) ) > .5")
--> filter.text: LEFT(payload, 1) = 'a' AND CASE WHEN user_id BETWEEN 1 AND 3 THEN TRUE ELSE user_id IS NULL END || CAST(payload AS DECIMAL(10,2)) > .5

-- WHERE, intervals
SELECT * FROM STREAM q WHERE DATE_ADD(payload, INTERVAL user_id DAY) > TIMESTAMP '2020-01-01 00:00:00' AND EXTRACT(YEAR_MONTH FROM payload) = 1
--> Subscribe
--> request.queue: shop.q
--> filter.parts: ("DATE_ADD( `payload` , INTERVAL `user_id` DAY ) > TIMESTAMP '2020-01-01 00:00:00' AND EXTRACT( YEAR_MONTH FROM `payload` ) = 1")
--> filter.text: DATE_ADD(payload, INTERVAL user_id DAY) > TIMESTAMP '2020-01-01 00:00:00' AND EXTRACT(YEAR_MONTH FROM payload) = 1

-- WHERE, a subquery
SELECT * FROM STREAM q WHERE user_id IN (SELECT 1)
--> error 1235 (42000): A subquery in a stream's WHERE is not supported; name columns of the queue

-- WHERE, the moment
SELECT * FROM STREAM q WHERE payload < CURRENT_TIMESTAMP
--> error 1235 (42000): CURRENT_TIMESTAMP in a stream's WHERE is not supported, for it does not depend on the message alone; bind the value with ?, or use time_scheduled for messages of the future

-- WHERE, an aggregate
SELECT * FROM STREAM q WHERE MAX(user_id) = 1
--> error 1235 (42000): MAX() in a stream's WHERE is not supported; a stream knows one message at a time

-- WHERE, a variable
SELECT * FROM STREAM q WHERE user_id = @a
--> error 1235 (42000): Variables in a stream's WHERE are not supported; write the value, or bind it with ?

-- WHERE, an unknown function
SELECT * FROM STREAM q WHERE shop.f(user_id) = 1
--> error 1235 (42000): shop.f() in a stream's WHERE is not supported; put what it works out into a generated column of the queue, and name that

-- WHERE, another unknown function
SELECT * FROM STREAM q WHERE f(user_id) = 1
--> error 1235 (42000): f() in a stream's WHERE is not supported; put what it works out into a generated column of the queue, and name that

-- WHERE, an unknown column
SELECT * FROM STREAM q WHERE orders.user_id = 1
--> error 1054 (42S22): Unknown column 'orders.user_id' in 'where clause'

-- WHERE, nothing
SELECT * FROM STREAM q WHERE LIMIT 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'LIMIT 1' at line 1 (a condition is needed)

-- WHERE, a parenthesis too many
SELECT * FROM STREAM q WHERE user_id = 1) OR (1 = 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ') OR (1 = 1' at line 1

-- WHERE twice
SELECT * FROM STREAM q WHERE user_id = 1 WHERE user_id = 2
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'WHERE user_id = 2' at line 1 (WHERE given twice)

-- ORDER BY
SELECT * FROM STREAM q ORDER BY id
--> error 1235 (42000): ORDER BY is not supported with FROM STREAM by this version; messages come by priority, then by the time they fell due

-- GROUP BY
SELECT user_id FROM STREAM q GROUP BY user_id
--> error 1235 (42000): GROUP BY is not supported with FROM STREAM by this version; read the queue's table instead: SELECT ... FROM q GROUP BY ...

-- JOIN
SELECT * FROM STREAM q JOIN account USING (user_id)
--> error 1235 (42000): A stream reads one queue; join in a second statement, with the ids received

-- two queues
SELECT * FROM STREAM q, orders
--> error 1235 (42000): A stream reads one queue; join in a second statement, with the ids received

-- an alias of the queue
SELECT * FROM STREAM q AS x
--> error 1235 (42000): An alias for a stream is not supported; use the queue's name

-- an alias of a column
SELECT id AS x FROM STREAM q
--> error 1235 (42000): Column aliases in a stream are not supported; the columns keep their names

-- an alias of a column without AS
SELECT id x FROM STREAM q
--> error 1235 (42000): Column aliases in a stream are not supported; the columns keep their names

-- an expression
SELECT epoch + 1 FROM STREAM q
--> error 1235 (42000): Expressions in the column list of a stream are not supported; name columns, or *

-- a function
SELECT COUNT(*) FROM STREAM q
--> error 1235 (42000): Expressions in the column list of a stream are not supported; name columns, or *

-- a literal
SELECT 1 FROM STREAM q
--> error 1235 (42000): Expressions in the column list of a stream are not supported; name columns, or *

-- DISTINCT
SELECT DISTINCT user_id FROM STREAM q
--> error 1235 (42000): SELECT DISTINCT FROM STREAM is not supported; every message comes as it is

-- a locking clause
SELECT * FROM STREAM q FOR UPDATE
--> error 1235 (42000): FOR UPDATE or SHARE is not supported with FROM STREAM by this version; a message that is delivered is leased already

-- UNION
SELECT * FROM STREAM q UNION SELECT * FROM STREAM orders
--> error 1235 (42000): UNION is not supported with FROM STREAM by this version; open a stream for each queue

-- INTO
SELECT * FROM STREAM q INTO OUTFILE '/tmp/x'
--> error 1235 (42000): INTO is not supported with FROM STREAM by this version; a stream goes to the client

-- an offset
SELECT * FROM STREAM q LIMIT 5, 10
--> error 1235 (42000): OFFSET is not supported with FROM STREAM; a message that was delivered does not come again before its lease ends

-- an offset by name
SELECT * FROM STREAM q LIMIT 5 OFFSET 10
--> error 1235 (42000): OFFSET is not supported with FROM STREAM; a message that was delivered does not come again before its lease ends

-- in a subquery
SELECT * FROM (SELECT * FROM STREAM q) AS x
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- in parentheses
(SELECT * FROM STREAM q)
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- as Spark JDBC probes a query
SELECT * FROM (SELECT * FROM STREAM q) SPARK_GEN_SUBQ_0 WHERE 1=0
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- as Spark JDBC probes a table
SELECT * FROM STREAM q WHERE 1=0
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- a condition that looks at no message
SELECT * FROM STREAM q WHERE (0 = 1) LIMIT 1
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- a condition of bound values alone
SELECT * FROM STREAM q WHERE ? = 1
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- with a time limit, by which a program probes
SET STATEMENT max_statement_time=5 FOR SELECT * FROM STREAM q WHERE 1=0
--> error 1235 (42000): SET STATEMENT ... FOR before this statement is not supported (MariaDB Connector/J: no query timeout); a stream is no JDBC table either: from Spark use the format 'queuegate' (docs/spark.md)

-- with a time limit
SET STATEMENT max_statement_time=5 FOR SELECT * FROM STREAM q WHERE user_id = 1
--> error 1235 (42000): SET STATEMENT ... FOR before this statement is not supported (MariaDB Connector/J: no query timeout); a stream is no JDBC table either: from Spark use the format 'queuegate' (docs/spark.md)

-- with a common table expression
WITH x AS (SELECT 1) SELECT * FROM STREAM q
--> error 1235 (42000): A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)

-- explained
EXPLAIN SELECT * FROM STREAM q
--> error 1235 (42000): EXPLAIN of a stream is not supported: it is no table. EXPLAIN DELIVERY FOR q tells why a message is not delivered, EXPLAIN SELECT ... FROM q how the queue's table is read

-- no column
SELECT FROM STREAM q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'FROM STREAM q' at line 1

-- LIMIT without a number
SELECT * FROM STREAM q LIMIT all
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'all' at line 1 (LIMIT takes a whole number)

-- WAIT without a number
SELECT * FROM STREAM q WAIT
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (WAIT takes seconds, or a duration such as '500ms')

-- WAIT for ever
SELECT * FROM STREAM q WAIT 9999999999
--> error 1231 (42000): WAIT: '9999999999' is longer than ten years

-- WAIT and NOWAIT
SELECT * FROM STREAM q WAIT 5 NOWAIT
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'NOWAIT' at line 1 (WAIT given twice)

-- LIMIT twice
SELECT * FROM STREAM q LIMIT 5 LIMIT 6
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'LIMIT 6' at line 1 (LIMIT given twice)

-- an unknown option
SELECT * FROM STREAM q WITH (batch_size = 10)
--> error 1231 (42000): a stream has no option 'batch_size'; allowed: ack_wait, prefetch, consumer, lease, key_range, keys

-- an absurd option
SELECT * FROM STREAM q WITH (prefetch = 0)
--> error 1231 (42000): prefetch: '0' is not a whole number from 1 to 1000000

-- a bound option
SELECT * FROM STREAM q WITH (prefetch = ?)
--> error 1235 (42000): ? is not supported in a WITH list; write the value

-- an option twice
SELECT * FROM STREAM q WITH (prefetch = 1, prefetch = 2)
--> error 1231 (42000): option 'prefetch' is given twice

-- text after the end
SELECT * FROM STREAM q LIMIT 5 )
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ')' at line 1

-- the name of the function in a string
SELECT 'queue_ack(1)'
--> Passthrough

-- a key range of a queue without a ring
SELECT * FROM STREAM q WITH (key_range = '-80')
--> error 1231 (42000): key_range: queue 'q' has no ring; ALTER QUEUE `q` ADD SHARDING KEY (column) adds it
