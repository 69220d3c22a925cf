-- ACK by ids
ACK parts 1, '2', ?
--> EndInGroup
--> sql: UPDATE `shop`.`parts` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2, ?)) AND time_acked IS NULL
--> effects.settled: ((shop.parts, (1, 2)))
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'acked')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM `shop`.`parts` WHERE (id IN (1, 2, ?)) AND time_acked IS NULL
--> pins: VERB

-- ACK by condition
ACK shop.parts WHERE order_id = 42 OR 1
--> EndInGroup
--> sql: UPDATE `shop`.`parts` SET time_acked = (NOW_NS()), time_next = NULL WHERE (order_id = 42 OR 1) AND time_acked IS NULL
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'acked')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM `shop`.`parts` WHERE (order_id = 42 OR 1) AND time_acked IS NULL
--> pins: VERB

-- ACK, groups by text
ACK jobs 1
--> EndInGroup
--> sql: UPDATE `shop`.`jobs` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> effects.settled: ((shop.jobs, (1)))
--> effects.tally: (shop.jobs, 'acked')
--> group.queue: shop.jobs
--> group.column: job
--> group.integer: False
--> group.dead: shop.jobs_dead
--> groups_sql: SELECT HEX(CONVERT(`job` USING utf8mb4)) FROM `shop`.`jobs` WHERE (id IN (1)) AND time_acked IS NULL
--> pins: VERB

-- state as ack, with an alias, order and limit
UPDATE LOW_PRIORITY parts AS p SET p.state = 'acked', p.order_id = 1 WHERE p.id = 1 OR 1 ORDER BY p.id LIMIT 3
--> EndInGroup
--> sql: UPDATE LOW_PRIORITY parts AS p SET time_acked = (NOW_NS()), time_next = NULL, p.order_id = 1 WHERE (p.id = 1 OR 1) AND time_acked IS NULL ORDER BY p.id LIMIT 3
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'acked')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM parts AS p WHERE (p.id = 1 OR 1) AND time_acked IS NULL ORDER BY p.id LIMIT 3

-- Vitess's ack
UPDATE parts SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (1, 2) AND time_acked IS NULL;
--> EndInGroup
--> sql: UPDATE parts SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (1, 2) AND time_acked IS NULL
--> effects.settled: ((shop.parts, (1, 2)))
--> effects.tally: (shop.parts, 'acked')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM parts WHERE (id IN (1, 2) AND time_acked IS NULL) AND time_acked IS NULL

-- Vitess's ack, bound
UPDATE parts SET time_acked = ?, time_next = NULL WHERE id IN (?)
--> EndInGroup
--> sql: UPDATE parts SET time_acked = ?, time_next = NULL WHERE id IN (?)
--> effects.touched: shop.parts
--> effects.uncertain: shop.parts
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM parts WHERE (id IN (?)) AND time_acked IS NULL

-- an UPDATE that ends nothing
UPDATE parts SET time_next = 0 WHERE id = 1
--> Passthrough
--> effects.touched: shop.parts
--> effects.uncertain: shop.parts

-- an UPDATE that takes acks back
UPDATE parts SET time_acked = NULL, time_next = 0 WHERE id = 1
--> Passthrough
--> effects.touched: shop.parts
--> effects.uncertain: shop.parts

-- DELETE
DELETE QUICK FROM `parts` WHERE id = 5
--> EndInGroup
--> sql: DELETE QUICK FROM `parts` WHERE id = 5
--> effects.settled: ((shop.parts, (5)))
--> effects.tally: (shop.parts, 'deleted')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM `parts` WHERE (id = 5) AND time_acked IS NULL

-- DELETE of all
DELETE FROM parts
--> EndInGroup
--> sql: DELETE FROM parts
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'deleted')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM parts WHERE time_acked IS NULL

-- DELETE with an alias and a limit
DELETE FROM parts AS p WHERE p.order_id = 1 LIMIT 2;
--> EndInGroup
--> sql: DELETE FROM parts AS p WHERE p.order_id = 1 LIMIT 2;
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'deleted')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> groups_sql: SELECT `order_id` FROM parts AS p WHERE p.order_id = 1 LIMIT 2

-- DELETE with a result
DELETE FROM parts WHERE id = 5 RETURNING id
--> Passthrough
--> effects.uncertain: shop.parts
--> effects.tally: (shop.parts, 'deleted')

-- DELETE from several tables
DELETE parts FROM parts JOIN account ON account.id = parts.order_id
--> Passthrough
--> effects.touched: shop.parts
--> effects.uncertain: shop.parts

-- DELETE from a queue without groups
DELETE FROM q WHERE id = 5
--> Passthrough
--> effects.settled: ((shop.q, (5)))
--> effects.tally: (shop.q, 'deleted')

-- a message that waits for a group
INSERT INTO parts (order_id) VALUES (CONCAT('AFTER GROUP ', 42)) AFTER GROUP 42 OF parts
--> InsertAfterGroup
--> parked: INSERT INTO parts (order_id, time_next) VALUES (CONCAT('AFTER GROUP ', 42), 9223372036854775807)
--> plain: INSERT INTO parts (order_id) VALUES (CONCAT('AFTER GROUP ', 42))
--> effects.touched: shop.parts
--> effects.tally: (shop.parts, 'enqueued')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> value: 42
--> follow: shop.parts
--> numbered: True

-- a message that waits in a queue that numbers nothing
INSERT INTO bills (user_id, payload) VALUES (42, 'AFTER GROUP') AFTER GROUP 42 OF parts
--> error 1235 (42000): INSERT ... AFTER GROUP into 'bills' must give the message's id

-- a message that waits, with an id of its own
INSERT IGNORE INTO parts (id, order_id) VALUES (7, 43) AFTER GROUP '42' OF shop.parts;
--> InsertAfterGroup
--> parked: INSERT IGNORE INTO parts (id, order_id, time_next) VALUES (7, 43, 9223372036854775807);
--> plain: INSERT IGNORE INTO parts (id, order_id) VALUES (7, 43);
--> effects.touched: shop.parts
--> effects.tally: (shop.parts, 'enqueued')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> value: 42
--> follow: shop.parts
--> numbered: False
--> id: 7

-- a message that waits, by SET, its values bound
INSERT parts SET id = ?, order_id = ? AFTER GROUP ? OF jobs
--> InsertAfterGroup
--> parked: INSERT parts SET id = ?, order_id = ?, time_next = 9223372036854775807
--> plain: INSERT parts SET id = ?, order_id = ?
--> effects.touched: shop.parts
--> effects.tally: (shop.parts, 'enqueued')
--> group.queue: shop.jobs
--> group.column: job
--> group.integer: False
--> group.dead: shop.jobs_dead
--> value: None
--> follow: shop.parts
--> numbered: False

-- a message that waits, for a text, in a queue of texts
INSERT INTO uuids (id, payload) VALUES ('a''b', NULL) AFTER GROUP 'it''s' OF jobs
--> InsertAfterGroup
--> parked: INSERT INTO uuids (id, payload, time_next) VALUES ('a''b', NULL, 9223372036854775807)
--> plain: INSERT INTO uuids (id, payload) VALUES ('a''b', NULL)
--> effects.touched: shop.uuids
--> effects.tally: (shop.uuids, 'enqueued')
--> group.queue: shop.jobs
--> group.column: job
--> group.integer: False
--> group.dead: shop.jobs_dead
--> value: it's
--> follow: shop.uuids
--> numbered: False
--> id: a'b

-- a message of Vitess's first layout that waits
INSERT INTO my_message (id, message) VALUES (1, 'm') AFTER GROUP 1 OF parts
--> InsertAfterGroup
--> parked: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'm', (NOW_NS()), 9223372036854775807, 0, (NOW_NS()))
--> plain: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'm', (NOW_NS()), time_scheduled, 0, (NOW_NS()))
--> effects.touched: shop.my_message
--> effects.tally: (shop.my_message, 'enqueued')
--> group.queue: shop.parts
--> group.column: order_id
--> group.integer: True
--> group.dead: shop.parts_dead
--> value: 1
--> follow: shop.my_message
--> numbered: False
--> id: 1

-- several messages
INSERT INTO parts (order_id) VALUES (1), (2) AFTER GROUP 1 OF parts
--> error 1235 (42000): AFTER GROUP follows an INSERT of one message, without ON DUPLICATE KEY UPDATE or RETURNING, not a REPLACE

-- a message from a SELECT
INSERT INTO parts (order_id) SELECT 1 AFTER GROUP 1 OF parts
--> error 1235 (42000): AFTER GROUP follows INSERT INTO q (columns) VALUES (one row), or INSERT INTO q SET column = value; not INSERT ... SELECT, nor an INSERT without a list of columns

-- after a group, or instead of another
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF parts ON DUPLICATE KEY UPDATE order_id = 2
--> error 1235 (42000): AFTER GROUP follows an INSERT of one message, without ON DUPLICATE KEY UPDATE or RETURNING, not a REPLACE

-- more rows behind the group
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF parts, (2, 3)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', (2, 3)' at line 1

-- an expression that goes on behind the group
INSERT INTO parts SET order_id = 1 AFTER GROUP 1 OF parts - 7
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '- 7' at line 1

-- an alias behind the group
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF parts AS x
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'AS x' at line 1

-- REPLACE
REPLACE INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF parts
--> error 1235 (42000): AFTER GROUP follows an INSERT of one message, without ON DUPLICATE KEY UPDATE or RETURNING, not a REPLACE

-- a time that is not the client's to say
INSERT INTO parts (order_id, time_next) VALUES (1, 0) AFTER GROUP 1 OF parts
--> error 1235 (42000): INSERT ... AFTER GROUP sets time_next itself; to send it later give time_scheduled

-- a queue without groups
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF q
--> error 1235 (42000): the messages of queue 'q' form no groups: ALTER QUEUE q SET (group_key = 'column')

-- no queue
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 OF account
--> error 1146 (42S02): Queue 'shop.account' doesn't exist

-- no number
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 'x' OF parts
--> error 1366 (HY000): Incorrect integer value: 'x' for column 'order_id' of 'parts'

-- an expression
INSERT INTO parts (order_id) VALUES (1) AFTER GROUP 1 + 1 OF parts
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '+ 1 OF parts' at line 1

-- an id that cannot be told
INSERT INTO parts (id, order_id) VALUES (1 + 1, 1) AFTER GROUP 1 OF parts
--> error 1235 (42000): INSERT ... AFTER GROUP takes an id that is a whole number or a quoted string, or none

-- an alias that is called after
INSERT INTO parts (order_id) SELECT COUNT(*) FROM log after GROUP BY day
--> Passthrough
--> effects.touched: shop.parts
--> effects.tally: (shop.parts, 'enqueued')
