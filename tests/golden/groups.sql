-- ACK by ids
ACK parts 1, '2', ?
--> groups of shop.parts by order_id: SELECT `order_id` FROM `shop`.`parts` WHERE (id IN (1, 2, ?)) AND time_acked IS NULL
--> execute: UPDATE `shop`.`parts` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2, ?)) AND time_acked IS NULL
--> settled shop.parts: 1, 2
--> uncertain shop.parts

-- ACK by condition
ACK shop.parts WHERE order_id = 42 OR 1
--> groups of shop.parts by order_id: SELECT `order_id` FROM `shop`.`parts` WHERE (order_id = 42 OR 1) AND time_acked IS NULL
--> execute: UPDATE `shop`.`parts` SET time_acked = (NOW_NS()), time_next = NULL WHERE (order_id = 42 OR 1) AND time_acked IS NULL
--> uncertain shop.parts

-- ACK, groups by text
ACK jobs 1
--> groups of shop.jobs by job: SELECT HEX(CONVERT(`job` USING utf8mb4)) FROM `shop`.`jobs` WHERE (id IN (1)) AND time_acked IS NULL
--> execute: UPDATE `shop`.`jobs` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> settled shop.jobs: 1

-- state as ack, with an alias, order and limit
UPDATE LOW_PRIORITY parts AS p SET p.state = 'acked', p.order_id = 1 WHERE p.id = 1 OR 1 ORDER BY p.id LIMIT 3
--> groups of shop.parts by order_id: SELECT `order_id` FROM parts AS p WHERE (p.id = 1 OR 1) AND time_acked IS NULL ORDER BY p.id LIMIT 3
--> execute: UPDATE LOW_PRIORITY parts AS p SET time_acked = (NOW_NS()), time_next = NULL, p.order_id = 1 WHERE (p.id = 1 OR 1) AND time_acked IS NULL ORDER BY p.id LIMIT 3
--> uncertain shop.parts

-- Vitess's ack
UPDATE parts SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (1, 2) AND time_acked IS NULL;
--> groups of shop.parts by order_id: SELECT `order_id` FROM parts WHERE (id IN (1, 2) AND time_acked IS NULL) AND time_acked IS NULL
--> execute: UPDATE parts SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN (1, 2) AND time_acked IS NULL
--> settled shop.parts: 1, 2

-- Vitess's ack, bound
UPDATE parts SET time_acked = ?, time_next = NULL WHERE id IN (?)
--> groups of shop.parts by order_id: SELECT `order_id` FROM parts WHERE (id IN (?)) AND time_acked IS NULL
--> execute: UPDATE parts SET time_acked = ?, time_next = NULL WHERE id IN (?)
--> touched shop.parts
--> uncertain shop.parts

-- an UPDATE that ends nothing
UPDATE parts SET time_next = 0 WHERE id = 1
--> pass through
--> touched shop.parts
--> uncertain shop.parts

-- an UPDATE that takes acks back
UPDATE parts SET time_acked = NULL, time_next = 0 WHERE id = 1
--> pass through
--> touched shop.parts
--> uncertain shop.parts

-- DELETE
DELETE QUICK FROM `parts` WHERE id = 5
--> groups of shop.parts by order_id: SELECT `order_id` FROM `parts` WHERE (id = 5) AND time_acked IS NULL
--> execute: DELETE QUICK FROM `parts` WHERE id = 5
--> settled shop.parts: 5

-- DELETE of all
DELETE FROM parts
--> groups of shop.parts by order_id: SELECT `order_id` FROM parts WHERE time_acked IS NULL
--> execute: DELETE FROM parts
--> uncertain shop.parts

-- DELETE with an alias and a limit
DELETE FROM parts AS p WHERE p.order_id = 1 LIMIT 2;
--> groups of shop.parts by order_id: SELECT `order_id` FROM parts AS p WHERE p.order_id = 1 LIMIT 2
--> execute: DELETE FROM parts AS p WHERE p.order_id = 1 LIMIT 2;
--> uncertain shop.parts

-- DELETE with a result
DELETE FROM parts WHERE id = 5 RETURNING id
--> pass through
--> uncertain shop.parts

-- DELETE from several tables
DELETE parts FROM parts JOIN account ON account.id = parts.order_id
--> pass through
--> touched shop.parts
--> uncertain shop.parts

-- DELETE from a queue without groups
DELETE FROM q WHERE id = 5
--> pass through
--> settled shop.q: 5

-- a message that waits for a group
INSERT INTO parts (order_id) VALUES (CONCAT('AFTER GROUP ', 42)) AFTER GROUP 42 OF parts
--> after group 42 of shop.parts by order_id: INSERT INTO parts (order_id, time_next) VALUES (CONCAT('AFTER GROUP ', 42), 9223372036854775807)
--> or at once: INSERT INTO parts (order_id) VALUES (CONCAT('AFTER GROUP ', 42))
--> message of shop.parts, numbered by the database
--> touched shop.parts

-- a message that waits in a queue that numbers nothing
INSERT INTO bills (user_id, payload) VALUES (42, 'AFTER GROUP') AFTER GROUP 42 OF parts
--> error 1235 (42000): INSERT ... AFTER GROUP into 'bills' must give the message's id

-- a message that waits, with an id of its own
INSERT IGNORE INTO parts (id, order_id) VALUES (7, 43) AFTER GROUP '42' OF shop.parts;
--> after group 42 of shop.parts by order_id: INSERT IGNORE INTO parts (id, order_id, time_next) VALUES (7, 43, 9223372036854775807);
--> or at once: INSERT IGNORE INTO parts (id, order_id) VALUES (7, 43);
--> message of shop.parts, id 7
--> touched shop.parts

-- a message that waits, by SET, its values bound
INSERT parts SET id = ?, order_id = ? AFTER GROUP ? OF jobs
--> after group None of shop.jobs by job: INSERT parts SET id = ?, order_id = ?, time_next = 9223372036854775807
--> or at once: INSERT parts SET id = ?, order_id = ?
--> message of shop.parts, id None
--> touched shop.parts

-- a message that waits, for a text, in a queue of texts
INSERT INTO uuids (id, payload) VALUES ('a''b', NULL) AFTER GROUP 'it''s' OF jobs
--> after group it's of shop.jobs by job: INSERT INTO uuids (id, payload, time_next) VALUES ('a''b', NULL, 9223372036854775807)
--> or at once: INSERT INTO uuids (id, payload) VALUES ('a''b', NULL)
--> message of shop.uuids, id a'b
--> touched shop.uuids

-- a message of Vitess's first layout that waits
INSERT INTO my_message (id, message) VALUES (1, 'm') AFTER GROUP 1 OF parts
--> after group 1 of shop.parts by order_id: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'm', (NOW_NS()), 9223372036854775807, 0, (NOW_NS()))
--> or at once: INSERT INTO my_message (id, message, time_scheduled, time_next, epoch, time_created) VALUES (1, 'm', (NOW_NS()), time_scheduled, 0, (NOW_NS()))
--> message of shop.my_message, id 1
--> touched shop.my_message

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
--> error 1235 (42000): INSERT ... AFTER GROUP sets time_next itself; to send the message later than its group is done, give time_scheduled

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
--> pass through
--> touched shop.parts
