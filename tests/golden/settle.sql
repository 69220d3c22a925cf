-- nack
NACK q 103
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (103)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 103

-- NACK where the first failure is fatal
NACK strict 7 DELAY 30 REASON 'no'
--> execute: UPDATE `shop`.`strict` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20226e6f227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'6e6f'), last_error = _utf8mb4 X'6e6f', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (7)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> settled shop.strict: 7
--> rejected shop.strict

-- nack with delay and reason
NACK q 104, 105 DELAY 30 REASON 'HTTP \'429\''
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202248545450202734323927227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'48545450202734323927'), last_error = _utf8mb4 X'48545450202734323927', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (104, 105)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 104, 105

-- nack, reason before delay
NACK q (104) REASON "x" DELAY '500ms';
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 500000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202278227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'78'), last_error = _utf8mb4 X'78', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (104)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 104

-- nack by condition on columns called like the clauses
NACK q WHERE delay > 5 AND reason = 'x' DELAY 1.5
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 1500000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (delay > 5 AND reason = 'x') AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> uncertain shop.q

-- nack by ids in a condition
NACK q WHERE id IN (1, 2)
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1, 2)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 1, 2

-- nack with NULL for what is not given
NACK q 1 DELAY NULL REASON NULL
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 1

-- nack by parameters
NACK q ?, ?
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (?, ?)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> uncertain shop.q

-- nack with a parameter among the clauses
NACK q ? DELAY ? REASON ?
--> plan again with 3 values

-- nack of text ids
NACK uuids 'a', 5
--> execute: UPDATE `shop`.`uuids` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN ('a', '5')) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.uuids
--> changed shop.uuids: 'a', '5'

-- nack of binary ids
NACK bins X'00ff' REASON 'x'
--> execute: UPDATE `shop`.`bins` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202278227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'78'), last_error = _utf8mb4 X'78', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (X'00ff')) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.bins
--> uncertain shop.bins

-- nack without columns for the reason
NACK bare 1 REASON 'x'
--> execute: UPDATE `shop`.`bare` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.bare
--> changed shop.bare: 1
--> warning queue 'bare' has no column for the reason, which is dropped; ALTER TABLE `bare` ADD COLUMN first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, ADD COLUMN last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL would keep it

-- nack delayed for an absurd time
NACK q 1 DELAY '99999d'
--> error 1231 (42000): NACK ... DELAY: '99999d' is longer than ten years

-- nack delayed by no duration
NACK q 1 DELAY 'soon'
--> error 1231 (42000): NACK ... DELAY: 'soon' is not a duration; give seconds, or '500ms', '30s', '5m', '2h', '1d'

-- nack delayed by a negative time
NACK q 1 DELAY -5
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '-5' at line 1 (a duration is a number of seconds, or '500ms', '30s', '5m')

-- nack twice delayed
NACK q 1 DELAY 5 DELAY 6
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'DELAY 6' at line 1 (DELAY given twice)

-- nack without ids
NACK q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (NACK takes ids or a condition: NACK q 101, 102 or NACK q WHERE id < 200)

-- nack of an unknown queue
NACK nope 1
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- nack with a limit
NACK q WHERE id = 1 LIMIT 5
--> error 1235 (42000): NACK ... LIMIT is not supported; NACK takes ids or a condition

-- nack with half a clause
NACK q 1 REASON
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (a reason is a quoted string)

-- nack by an expression
NACK q 1 + 1
--> error 1235 (42000): NACK takes whole numbers, quoted strings and ?, not an expression near '1 + 1'; use NACK q WHERE id = ...

-- reject
REJECT q 105 REASON 'bad JSON'
--> execute: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'2c20226572726f72223a2022626164204a534f4e227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'626164204a534f4e'), last_error = _utf8mb4 X'626164204a534f4e', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (105)) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> settled shop.q: 105
--> rejected shop.q

-- reject by condition
REJECT q WHERE payload LIKE 'x%'
--> execute: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (payload LIKE 'x%') AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> rejected shop.q
--> uncertain shop.q

-- reject has no delay
REJECT q 105 DELAY 5
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'DELAY 5' at line 1

-- release
RELEASE q 106
--> execute: UPDATE `shop`.`q` SET time_next = LEAST(time_scheduled, (NOW_NS())), epoch = epoch - 1, lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (106)) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> touched shop.q
--> changed shop.q: 106

-- release by condition, of a table without time_scheduled
RELEASE bare WHERE id = ?
--> execute: UPDATE `shop`.`bare` SET time_next = (NOW_NS()), epoch = epoch - 1 WHERE (id = ?) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> touched shop.bare
--> uncertain shop.bare

-- release has no reason
RELEASE q 106 REASON 'x'
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'REASON 'x'' at line 1

-- renew
RENEW q 107 FOR '5m'
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 300000000001 WHERE (id IN (107)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> changed shop.q: 107

-- renew by condition
RENEW q WHERE user_id = 7 FOR 60
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 60000000001 WHERE (user_id = 7) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> uncertain shop.q

-- renew by a parameter
RENEW q ? FOR ?
--> plan again with 2 values

-- renew for no time at all
RENEW q 107 FOR 0
--> error 1231 (42000): RENEW ... FOR: '0' is too short; at least 10ms

-- renew without a time
RENEW q 107
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (RENEW q 107 FOR '5m')

-- retry
RETRY q NOW
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) WHERE time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> touched shop.q

-- retry by condition
RETRY q NOW WHERE payload LIKE 'a%'
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) WHERE (payload LIKE 'a%') AND time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> touched shop.q

-- retry without NOW
RETRY q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (RETRY q NOW [WHERE condition])

-- select queue_ack
SELECT queue_ack('q', 101, 102)
--> tell the count as queue_ack('q', 101, 102)
--> execute: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (101, 102)) AND time_acked IS NULL
--> settled shop.q: 101, 102

-- select queue_nack with an alias
SELECT queue_nack('other.q2', 1, '30s', 'it''s late') AS n FROM DUAL LIMIT 1
--> tell the count as n
--> execute: UPDATE `other`.`q2` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202269742773206c617465227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'69742773206c617465'), last_error = _utf8mb4 X'69742773206c617465', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched other.q2
--> changed other.q2: 1

-- select queue_reject
select queue_reject('q', 5, NULL)
--> tell the count as queue_reject('q', 5, NULL)
--> execute: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (5)) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> settled shop.q: 5
--> rejected shop.q

-- select queue_release
SELECT `queue_release`('`my-queue`', 1, 2) `a b`;
--> tell the count as a b
--> execute: UPDATE `shop`.`my-queue` SET time_next = LEAST(time_scheduled, (NOW_NS())), epoch = epoch - 1, lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1, 2)) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> touched shop.my-queue
--> changed shop.my-queue: 1, 2

-- select queue_renew
SELECT queue_renew('q', 1, '5m')
--> tell the count as queue_renew('q', 1, '5m')
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 300000000001 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> changed shop.q: 1

-- select with parameters
SELECT queue_nack('q', ?, ?, ?)
--> plan again with 3 values, a result with queue_nack('q', ?, ?, ?)

-- select of two functions
SELECT queue_ack('q', 1), queue_ack('q', 2)
--> error 1235 (42000): QUEUE_ACK() is not supported within another statement or beside other columns: SELECT queue_ack('q', id, ...) alone, or the statement ACK

-- select beside other columns
SELECT 1, queue_ack('q', 1)
--> error 1235 (42000): QUEUE_ACK() is not supported within another statement or beside other columns: SELECT queue_ack('q', id, ...) alone, or the statement ACK

-- select in a query of a table
SELECT queue_ack('q', id) FROM t
--> error 1235 (42000): QUEUE_ACK() is not supported within another statement or beside other columns: SELECT queue_ack('q', id, ...) alone, or the statement ACK

-- a function inside another
SELECT IFNULL(queue_ack('q', 1), 0)
--> error 1235 (42000): QUEUE_ACK() is not supported within another statement or beside other columns: SELECT queue_ack('q', id, ...) alone, or the statement ACK

-- a function of the user's own
SELECT mine.queue_ack('q', 1)
--> pass through

-- a function without ids
SELECT queue_ack('q')
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ')' at line 1 (queue_ack('q', id, ...))

-- a function with an expression
SELECT queue_ack('q', 1 + 1)
--> error 1235 (42000): ACK takes whole numbers, quoted strings and ?, not an expression near '1 + 1)'; use ACK q WHERE id = ...

-- a function on a name that is no string
SELECT queue_ack(q, 1)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'q, 1)' at line 1 (queue_ack('q', id, ...): the queue's name is a string)

-- call queue_ack
CALL queue_ack('q', 101)
--> execute: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (101)) AND time_acked IS NULL
--> settled shop.q: 101

-- call queue_nack
call queue_nack('q', 1, 30, 'late');
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20226c617465227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'6c617465'), last_error = _utf8mb4 X'6c617465', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> changed shop.q: 1

-- call with parameters
CALL queue_renew(?, ?, ?)
--> plan again with 3 values

-- call of a procedure of the user's own
CALL mine.queue_ack('q', 1)
--> pass through
--> transaction opaque

-- call with too much
CALL queue_renew('q', 1, 5, 6)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', 6)' at line 1 (queue_renew('q', id, duration))

-- redrive
REDRIVE q_dead
--> mark: UPDATE `shop`.`q_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id
--> copy: INSERT INTO `shop`.`q` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> touched shop.q
--> uncertain shop.q_dead

-- redrive some
REDRIVE q_dead WHERE last_error LIKE 'x%' LIMIT 5;
--> mark: UPDATE `shop`.`q_dead` SET time_next = 9223372036854775805 WHERE (last_error LIKE 'x%') AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id LIMIT 5
--> copy: INSERT INTO `shop`.`q` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> touched shop.q
--> uncertain shop.q_dead

-- redrive of a dead-letter queue made by hand
REDRIVE bills_dead
--> mark: UPDATE `shop`.`bills_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id
--> copy: INSERT INTO `shop`.`bills` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`bills_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`bills_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> touched shop.bills
--> uncertain shop.bills_dead

-- redrive of what is no dead-letter queue
REDRIVE bare
--> error 1235 (42000): REDRIVE bare is not possible: no queue has it for its dead-letter queue; move the messages by INSERT ... SELECT

-- redrive where the queue is gone
REDRIVE lost_dead
--> error 1235 (42000): REDRIVE lost_dead is not possible: its queue 'lost' is gone; move the messages by INSERT ... SELECT

-- redrive with an order
REDRIVE q_dead ORDER BY id
--> error 1235 (42000): REDRIVE ... ORDER is not supported; the oldest dead letters go first

-- redrive with parameters
REDRIVE q_dead WHERE user_id = ? LIMIT ?
--> plan again with 2 values

-- redrive without a number
REDRIVE q_dead LIMIT x
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'x' at line 1 (LIMIT takes a whole number)

-- reject of a dead letter
REJECT q_dead 1
--> error 1235 (42000): 'q_dead' is a dead-letter queue: REJECT is not supported there; ACK ends a dead letter, REDRIVE sends it again

-- ack of one delivery
ACK q WHERE id = 5 AND epoch = 2
--> execute: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL
--> if it changes all 1:
--> settled shop.q: 5

-- nack of one delivery of several messages
NACK q WHERE id IN (5, 6) AND epoch = 2
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (5, 6) AND epoch = 2) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> touched shop.q
--> if it changes all 2:
--> changed shop.q: 5, 6

-- reject of one delivery
REJECT q WHERE id = 5 AND epoch = 2 REASON 'bad'
--> execute: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'2c20226572726f72223a2022626164227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'626164'), last_error = _utf8mb4 X'626164', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> if it changes all 1:
--> settled shop.q: 5
--> rejected shop.q

-- renew of one delivery
RENEW q WHERE id = 5 AND epoch = 2 FOR '1m'
--> execute: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 60000000001 WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> if it changes all 1:
--> changed shop.q: 5

-- ack of more than one delivery
ACK q WHERE id = 5 AND epoch > 2
--> execute: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 5 AND epoch > 2) AND time_acked IS NULL
--> uncertain shop.q
