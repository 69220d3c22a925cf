-- state as ack
UPDATE q SET state = 'acked' WHERE id = 101
--> Execute
--> sql: UPDATE q SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 101) AND time_acked IS NULL
--> effects.settled: ((shop.q, (101)))
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- state as ack, all
UPDATE q SET state='ACKED';
--> Execute
--> sql: UPDATE q SET time_acked = (NOW_NS()), time_next = NULL WHERE time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- state as ack with other columns, order and limit
UPDATE LOW_PRIORITY q AS m SET payload = CONCAT(payload, ', done'), m.state = 'acked', user_id = ? WHERE m.user_id = ? OR 1 ORDER BY id LIMIT 10
--> Execute
--> sql: UPDATE LOW_PRIORITY q AS m SET payload = CONCAT(payload, ', done'), time_acked = (NOW_NS()), time_next = NULL, user_id = ? WHERE (m.user_id = ? OR 1) AND time_acked IS NULL ORDER BY id LIMIT 10
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- state as ack, limited: some of these ids may stay
UPDATE q SET state = 'acked' WHERE id IN (1, 2) LIMIT 1
--> Execute
--> sql: UPDATE q SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2)) AND time_acked IS NULL LIMIT 1
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- state as ack at a time of one's own
UPDATE shop.q SET state = 'acked', time_acked = 5 WHERE id IN (1, 2)
--> Execute
--> sql: UPDATE shop.q SET time_next = NULL, time_acked = 5 WHERE (id IN (1, 2)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1, 2)))
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- state as ack, bound
UPDATE q SET state = 'acked' WHERE id = ?
--> Execute
--> sql: UPDATE q SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = ?) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: ROWS

-- another state
UPDATE q SET state = 'to_be_fired' WHERE id = 1
--> error 1235 (42000): state can only be set to 'acked'; it follows from time_acked and epoch. To send a message again: UPDATE q SET time_next = 0 WHERE id = ...

-- a bound state
UPDATE q SET state = ? WHERE id = 1
--> error 1235 (42000): state can only be set to 'acked'; it follows from time_acked and epoch. To send a message again: UPDATE q SET time_next = 0 WHERE id = ...

-- a state column of the user's own
UPDATE vt SET state = 'whatever' WHERE id = 1
--> Passthrough
--> effects.touched: shop.vt
--> effects.uncertain: shop.vt

-- the word state elsewhere
UPDATE q SET payload = 'state' WHERE id = 1
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- a table that is no queue
UPDATE account SET state = 'acked' WHERE id = 1
--> Passthrough

-- Vitess's ack
UPDATE q SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (101, 102) AND time_acked IS NULL
--> Passthrough
--> effects.settled: ((shop.q, (101, 102)))
--> effects.tally: (shop.q, 'acked')

-- Vitess's ack without its guard
UPDATE q SET time_acked = 1700000000000000000, time_next = NULL WHERE id = 101
--> Passthrough
--> effects.settled: ((shop.q, (101)))
--> effects.tally: (shop.q, 'acked')

-- Vitess's ack by another condition
UPDATE q SET time_acked = 1700000000000000000, time_next = NULL WHERE user_id = 3 AND time_acked IS NULL
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')

-- an ack whose time cannot be told to be one
UPDATE q SET time_acked = ?, time_next = NULL WHERE id = 101
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- an ack taken back
UPDATE q SET time_acked = NULL, time_next = 0 WHERE id = 101
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- an ack with IGNORE
UPDATE IGNORE q SET time_acked = 17, time_next = NULL WHERE id = 101
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')

-- a text key
UPDATE uuids SET time_acked = 17, time_next = NULL WHERE id IN ('a', 'b')
--> Passthrough
--> effects.settled: ((shop.uuids, ('a', 'b')))
--> effects.tally: (shop.uuids, 'acked')

-- a number for a text key equals many
UPDATE uuids SET time_acked = 17, time_next = NULL WHERE id = 5
--> Passthrough
--> effects.uncertain: shop.uuids
--> effects.tally: (shop.uuids, 'acked')

-- rescheduling
UPDATE q SET time_next = 0 WHERE id = 101
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- several tables
UPDATE account a JOIN q ON q.user_id = a.id SET q.time_acked = 1, a.n = a.n + 1 WHERE a.id = 7
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- several tables, state
UPDATE account a, q SET q.state = 'acked' WHERE a.id = q.user_id
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- a common table expression
WITH late AS (SELECT 1 AS id) UPDATE q SET priority = 1 WHERE id IN (SELECT id FROM late)
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- what the grammar cannot follow is left to the database
UPDATE q SET state = 'acked' WHERE (id = 1
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- DELETE of ids
DELETE FROM q WHERE id IN (1, 2, 3)
--> Passthrough
--> effects.settled: ((shop.q, (1, 2, 3)))
--> effects.tally: (shop.q, 'deleted')

-- DELETE of one, qualified
DELETE FROM `shop`.`q` WHERE `q`.`id` = 7;
--> Passthrough
--> effects.settled: ((shop.q, (7)))
--> effects.tally: (shop.q, 'deleted')

-- DELETE of a text id
DELETE FROM uuids WHERE id = 'a-1'
--> Passthrough
--> effects.settled: ((shop.uuids, ('a-1')))
--> effects.tally: (shop.uuids, 'deleted')

-- DELETE by another condition
DELETE FROM q WHERE user_id = 3
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'deleted')

-- DELETE of all
DELETE FROM q
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'deleted')

-- DELETE with a limit
DELETE FROM q WHERE id = 1 LIMIT 1
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'deleted')

-- DELETE, bound
DELETE FROM q WHERE id = ?
--> Passthrough
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'deleted')

-- DELETE from several tables
DELETE q, a FROM q JOIN account a ON a.id = q.user_id
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- DELETE USING
DELETE FROM q USING q JOIN account a ON a.id = q.user_id WHERE a.id = 3
--> Passthrough
--> effects.touched: shop.q
--> effects.uncertain: shop.q

-- DELETE from another table
DELETE FROM account WHERE id IN (SELECT user_id FROM q)
--> Passthrough
