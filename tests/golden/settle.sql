-- nack
NACK q 103
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (103)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (103)))
--> effects.delay_ns: 0
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 507
--> pins: VERB

-- NACK where the first failure is fatal
NACK strict 7 DELAY 30 REASON 'no'
--> Execute
--> sql: UPDATE `shop`.`strict` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20226e6f227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'6e6f'), last_error = _utf8mb4 X'6e6f', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (7)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.settled: ((shop.strict, (7)))
--> effects.rejected: shop.strict
--> effects.tally: (shop.strict, 'nacked')
--> effects.reason: no
--> reporter_offset: 381
--> pins: VERB

-- nack with delay and reason
NACK q 104, 105 DELAY 30 REASON 'HTTP \'429\''
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202248545450202734323927227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'48545450202734323927'), last_error = _utf8mb4 X'48545450202734323927', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (104, 105)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (104, 105)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.q, 'nacked')
--> effects.reason: HTTP '429'
--> reporter_offset: 381
--> pins: VERB

-- nack, reason before delay
NACK q (104) REASON "x" DELAY '500ms';
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 500000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202278227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'78'), last_error = _utf8mb4 X'78', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (104)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (104)))
--> effects.delay_ns: 500000000
--> effects.tally: (shop.q, 'nacked')
--> effects.reason: x
--> reporter_offset: 379
--> pins: VERB

-- nack by condition on columns called like the clauses
NACK q WHERE delay > 5 AND reason = 'x' DELAY 1.5
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 1500000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (delay > 5 AND reason = 'x') AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.uncertain: shop.q
--> effects.delay_ns: 1500000000
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 380
--> pins: VERB

-- nack by ids in a condition
NACK q WHERE id IN (1, 2)
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1, 2)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (1, 2)))
--> effects.delay_ns: 0
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 507
--> pins: VERB

-- nack with NULL for what is not given
NACK q 1 DELAY NULL REASON NULL
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (1)))
--> effects.delay_ns: 0
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 507
--> pins: VERB

-- nack by parameters
NACK q ?, ?
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (?, ?)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.uncertain: shop.q
--> effects.delay_ns: 0
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 507
--> pins: VERB

-- nack with a parameter among the clauses
NACK q ? DELAY ? REASON ?
--> Rebind
--> sql: NACK q ? DELAY ? REASON ?
--> parameters: 3
--> column: None

-- nack of text ids
NACK uuids 'a', 5
--> Execute
--> sql: UPDATE `shop`.`uuids` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN ('a', '5')) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.uuids
--> effects.changed: ((shop.uuids, ('a', '5')))
--> effects.delay_ns: 0
--> effects.tally: (shop.uuids, 'nacked')
--> reporter_offset: 511
--> pins: VERB

-- nack of binary ids
NACK bins X'00ff' REASON 'x'
--> Execute
--> sql: UPDATE `shop`.`bins` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202278227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'78'), last_error = _utf8mb4 X'78', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (X'00ff')) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.bins
--> effects.uncertain: shop.bins
--> effects.delay_ns: 0
--> effects.tally: (shop.bins, 'nacked')
--> effects.reason: x
--> reporter_offset: 510
--> pins: VERB

-- nack without columns for the reason
NACK bare 1 REASON 'x'
--> Execute
--> sql: UPDATE `shop`.`bare` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.bare
--> effects.changed: ((shop.bare, (1)))
--> effects.delay_ns: 0
--> effects.tally: (shop.bare, 'nacked')
--> effects.reason: x
--> warnings: ("queue 'bare' has no column for the reason, which is dropped; ALTER TABLE `bare` ADD COLUMN first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, ADD COLUMN last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL would keep it")
--> pins: VERB

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
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'2c20226572726f72223a2022626164204a534f4e227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'626164204a534f4e'), last_error = _utf8mb4 X'626164204a534f4e', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (105)) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.settled: ((shop.q, (105)))
--> effects.rejected: shop.q
--> effects.tally: (shop.q, 'rejected')
--> effects.reason: bad JSON
--> reporter_offset: 380
--> pins: VERB

-- reject by condition
REJECT q WHERE payload LIKE 'x%'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (payload LIKE 'x%') AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.uncertain: shop.q
--> effects.rejected: shop.q
--> effects.tally: (shop.q, 'rejected')
--> reporter_offset: 380
--> pins: VERB

-- reject has no delay
REJECT q 105 DELAY 5
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'DELAY 5' at line 1

-- release
RELEASE q 106
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = LEAST(time_scheduled, (NOW_NS())), epoch = epoch - 1, lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (106)) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (106)))
--> effects.tally: (shop.q, 'released')
--> pins: VERB

-- release by condition, of a table without time_scheduled
RELEASE bare WHERE id = ?
--> Execute
--> sql: UPDATE `shop`.`bare` SET time_next = (NOW_NS()), epoch = epoch - 1 WHERE (id = ?) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.bare
--> effects.uncertain: shop.bare
--> effects.tally: (shop.bare, 'released')
--> pins: VERB

-- release has no reason
RELEASE q 106 REASON 'x'
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'REASON 'x'' at line 1

-- renew
RENEW q 107 FOR '5m'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 300000000001 WHERE (id IN (107)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.changed: ((shop.q, (107)))
--> effects.delay_ns: 300000000000
--> effects.tally: (shop.q, 'renewed')
--> pins: VERB

-- renew by condition
RENEW q WHERE user_id = 7 FOR 60
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 60000000001 WHERE (user_id = 7) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.uncertain: shop.q
--> effects.delay_ns: 60000000000
--> effects.tally: (shop.q, 'renewed')
--> pins: VERB

-- renew by a parameter
RENEW q ? FOR ?
--> Rebind
--> sql: RENEW q ? FOR ?
--> parameters: 2
--> column: None

-- renew for no time at all
RENEW q 107 FOR 0
--> error 1231 (42000): RENEW ... FOR: '0' is too short; at least 10ms

-- renew without a time
RENEW q 107
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (RENEW q 107 FOR '5m')

-- retry
RETRY q NOW
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) WHERE time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.q
--> pins: VERB

-- retry by condition
RETRY q NOW WHERE payload LIKE 'a%'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) WHERE (payload LIKE 'a%') AND time_acked IS NULL AND time_next > (NOW_NS()) AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))
--> effects.touched: shop.q
--> pins: VERB

-- retry without NOW
RETRY q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (RETRY q NOW [WHERE condition])

-- select queue_ack
SELECT queue_ack('q', 101, 102)
--> ExecuteCounting
--> queue: shop.q
--> counts.sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (101, 102)) AND time_acked IS NULL
--> counts.effects.settled: ((shop.q, (101, 102)))
--> counts.effects.tally: (shop.q, 'acked')
--> counts.pins: VERB
--> column: queue_ack('q', 101, 102)

-- select queue_nack with an alias
SELECT queue_nack('other.q2', 1, '30s', 'it''s late') AS n FROM DUAL LIMIT 1
--> ExecuteCounting
--> queue: other.q2
--> counts.sql: UPDATE `other`.`q2` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a202269742773206c617465227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'69742773206c617465'), last_error = _utf8mb4 X'69742773206c617465', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> counts.effects.touched: other.q2
--> counts.effects.changed: ((other.q2, (1)))
--> counts.effects.delay_ns: 30000000000
--> counts.effects.tally: (other.q2, 'nacked')
--> counts.effects.reason: it's late
--> counts.reporter_offset: 383
--> counts.pins: VERB
--> column: n

-- select queue_reject
select queue_reject('q', 5, NULL)
--> ExecuteCounting
--> queue: shop.q
--> counts.sql: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (5)) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> counts.effects.settled: ((shop.q, (5)))
--> counts.effects.rejected: shop.q
--> counts.effects.tally: (shop.q, 'rejected')
--> counts.reporter_offset: 380
--> counts.pins: VERB
--> column: queue_reject('q', 5, NULL)

-- select queue_release
SELECT `queue_release`('`my-queue`', 1, 2) `a b`;
--> ExecuteCounting
--> queue: shop.my-queue
--> counts.sql: UPDATE `shop`.`my-queue` SET time_next = LEAST(time_scheduled, (NOW_NS())), epoch = epoch - 1, lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1, 2)) AND (time_acked IS NULL AND epoch > 0 AND time_next > (NOW_NS()) AND MOD(time_next, 1000) IN (1, 3))
--> counts.effects.touched: shop.my-queue
--> counts.effects.changed: ((shop.my-queue, (1, 2)))
--> counts.effects.tally: (shop.my-queue, 'released')
--> counts.pins: VERB
--> column: a b

-- select queue_renew
SELECT queue_renew('q', 1, '5m')
--> ExecuteCounting
--> queue: shop.q
--> counts.sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 300000000001 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> counts.effects.changed: ((shop.q, (1)))
--> counts.effects.delay_ns: 300000000000
--> counts.effects.tally: (shop.q, 'renewed')
--> counts.pins: VERB
--> column: queue_renew('q', 1, '5m')

-- select with parameters
SELECT queue_nack('q', ?, ?, ?)
--> Rebind
--> sql: SELECT queue_nack('q', ?, ?, ?)
--> parameters: 3
--> column: queue_nack('q', ?, ?, ?)

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
--> Passthrough

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
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (101)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (101)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- call queue_nack
call queue_nack('q', 1, 30, 'late');
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 30000000000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'2c20226572726f72223a20226c617465227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'6c617465'), last_error = _utf8mb4 X'6c617465', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (1)))
--> effects.delay_ns: 30000000000
--> effects.tally: (shop.q, 'nacked')
--> effects.reason: late
--> reporter_offset: 381
--> pins: VERB

-- call with parameters
CALL queue_renew(?, ?, ?)
--> Rebind
--> sql: CALL queue_renew(?, ?, ?)
--> parameters: 3
--> column: None

-- call of a procedure of the user's own
CALL mine.queue_ack('q', 1)
--> Passthrough
--> effects.transaction: OPAQUE

-- call with too much
CALL queue_renew('q', 1, 5, 6)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', 6)' at line 1 (queue_renew('q', id, duration))

-- redrive
REDRIVE q_dead
--> Redrive
--> mark: UPDATE `shop`.`q_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id
--> copy: INSERT INTO `shop`.`q` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.q
--> effects.uncertain: shop.q_dead

-- redrive some
REDRIVE q_dead WHERE last_error LIKE 'x%' LIMIT 5;
--> Redrive
--> mark: UPDATE `shop`.`q_dead` SET time_next = 9223372036854775805 WHERE (last_error LIKE 'x%') AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id LIMIT 5
--> copy: INSERT INTO `shop`.`q` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`q_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.q
--> effects.uncertain: shop.q_dead

-- redrive of a dead-letter queue made by hand
REDRIVE bills_dead
--> Redrive
--> mark: UPDATE `shop`.`bills_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806) ORDER BY time_next, id
--> copy: INSERT INTO `shop`.`bills` (`id`, `priority`, `time_scheduled`, `time_next`, `epoch`, `time_created`, `time_acked`, `first_error`, `last_error`, `failed_attempts`, `lease_token`, `user_id`, `payload`) SELECT `id`, `priority`, `time_scheduled`, (NOW_NS()), 0, `time_created`, NULL, `first_error`, `last_error`, `failed_attempts`, 0, `user_id`, `payload` FROM `shop`.`bills_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> delete: DELETE FROM `shop`.`bills_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805
--> effects.touched: shop.bills
--> effects.uncertain: shop.bills_dead

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
--> Rebind
--> sql: REDRIVE q_dead WHERE user_id = ? LIMIT ?
--> parameters: 2
--> column: None

-- redrive without a number
REDRIVE q_dead LIMIT x
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'x' at line 1 (LIMIT takes a whole number)

-- reject of a dead letter
REJECT q_dead 1
--> error 1235 (42000): 'q_dead' is a dead-letter queue: REJECT is not supported there; ACK ends a dead letter, REDRIVE sends it again

-- ack of one delivery
ACK q WHERE id = 5 AND epoch = 2
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL
--> effects.settled: ((shop.q, (5)))
--> effects.if_all: 1
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- nack of one delivery of several messages
NACK q WHERE id IN (5, 6) AND epoch = 2
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + GREATEST(30000000, LEAST(3600000000, ((30000000 << LEAST(epoch - 1, 8)) * (683 + MOD(CRC32(CONCAT(id, ':', epoch)), 683)) >> 10))) * 1000, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a20226e61636b656422', _utf8mb4 X'7d5d'), lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id IN (5, 6) AND epoch = 2) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.touched: shop.q
--> effects.changed: ((shop.q, (5, 6)))
--> effects.if_all: 2
--> effects.delay_ns: 0
--> effects.tally: (shop.q, 'nacked')
--> reporter_offset: 507
--> pins: VERB

-- reject of one delivery
REJECT q WHERE id = 5 AND epoch = 2 REASON 'bad'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = 9223372036854775806, failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), _utf8mb4 X'2c0a', -9), _utf8mb4 X'2c0a'), ''), '{"attempt": ', epoch, ', "at": "', UTC_TIMESTAMP(6), _utf8mb4 X'222c20226f7574636f6d65223a202272656a656374656422', _utf8mb4 X'2c20226572726f72223a2022626164227d5d'), first_error = COALESCE(first_error, _utf8mb4 X'626164'), last_error = _utf8mb4 X'626164', lease_token = LEAST(lease_token, 9007199254740991) + 1 WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.settled: ((shop.q, (5)))
--> effects.rejected: shop.q
--> effects.if_all: 1
--> effects.tally: (shop.q, 'rejected')
--> effects.reason: bad
--> reporter_offset: 380
--> pins: VERB

-- renew of one delivery
RENEW q WHERE id = 5 AND epoch = 2 FOR '1m'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_next = (NOW_NS()) + 60000000001 WHERE (id = 5 AND epoch = 2) AND time_acked IS NULL AND epoch > 0 AND (time_next IS NULL OR time_next < 9223372036854775806)
--> effects.changed: ((shop.q, (5)))
--> effects.if_all: 1
--> effects.delay_ns: 60000000000
--> effects.tally: (shop.q, 'renewed')
--> pins: VERB

-- ack of more than one delivery
ACK q WHERE id = 5 AND epoch > 2
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 5 AND epoch > 2) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB
