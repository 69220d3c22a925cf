-- one id
ACK q 101
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (101)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (101)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- several ids
ack `q` 1, 2,3 ;
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2,3)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1, 2, 3)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- ids in parentheses
ACK q (1, 2)
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1, 2)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- another database
ACK other.q2 5
--> Execute
--> sql: UPDATE `other`.`q2` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (5)) AND time_acked IS NULL
--> effects.settled: ((other.q2, (5)))
--> effects.tally: (other.q2, 'acked')
--> pins: VERB

-- a name in back-quotes
ACK shop.`my-queue` 5
--> Execute
--> sql: UPDATE `shop`.`my-queue` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (5)) AND time_acked IS NULL
--> effects.settled: ((shop.my-queue, (5)))
--> effects.tally: (shop.my-queue, 'acked')
--> pins: VERB

-- a comment between
/* c */ ACK -- why
 q # so
 7
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (7)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (7)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- a bound id
ACK q ?
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (?)) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- bound and literal ids
ACK q ?, 5, ?
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (?, 5, ?)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (5)))
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- the case of a name matters only if there are two
ACK other.mixed 1
--> Execute
--> sql: UPDATE `other`.`Mixed` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> effects.settled: ((other.Mixed, (1)))
--> effects.tally: (other.Mixed, 'acked')
--> pins: VERB

-- quoted digits are an id of an integer key
ACK q '5'
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (5)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (5)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- text ids
ACK uuids 'a-1', "b-2"
--> Execute
--> sql: UPDATE `shop`.`uuids` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN ('a-1', "b-2")) AND time_acked IS NULL
--> effects.settled: ((shop.uuids, ('a-1', 'b-2')))
--> effects.tally: (shop.uuids, 'acked')
--> pins: VERB

-- a number for a text key is taken as text
ACK uuids 5
--> Execute
--> sql: UPDATE `shop`.`uuids` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN ('5')) AND time_acked IS NULL
--> effects.settled: ((shop.uuids, ('5')))
--> effects.tally: (shop.uuids, 'acked')
--> pins: VERB

-- an escape in a text id: the table is asked
ACK uuids 'it\'s', 'it''s'
--> Execute
--> sql: UPDATE `shop`.`uuids` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN ('it\'s', 'it''s')) AND time_acked IS NULL
--> effects.settled: ((shop.uuids, ("it's", "it's")))
--> effects.tally: (shop.uuids, 'acked')
--> pins: VERB

-- a binary key: the table is asked
ACK bins 'abc'
--> Execute
--> sql: UPDATE `shop`.`bins` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN ('abc')) AND time_acked IS NULL
--> effects.uncertain: shop.bins
--> effects.tally: (shop.bins, 'acked')
--> pins: VERB

-- by condition
ACK q WHERE user_id = 7 AND (payload LIKE 'a;b%' OR payload IS NULL)
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (user_id = 7 AND (payload LIKE 'a;b%' OR payload IS NULL)) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- by ids as a condition
ACK q WHERE id IN (1, 2)
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1, 2)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- by one id as a condition
ACK q WHERE `q`.`id` = 12;
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (`q`.`id` = 12) AND time_acked IS NULL
--> effects.settled: ((shop.q, (12)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- by a condition that says nothing new
ACK q WHERE id = 3 AND time_acked IS NULL
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 3 AND time_acked IS NULL) AND time_acked IS NULL
--> effects.settled: ((shop.q, (3)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- by a condition that is not only ids
ACK q WHERE id IN (1, 2) AND user_id = 3
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1, 2) AND user_id = 3) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- a bound condition
ACK q WHERE user_id < ? AND payload = ?
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (user_id < ? AND payload = ?) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- a comment inside a condition is kept, one at its end is not
ACK q WHERE id = 1 -- one
  OR id = 2 -- two
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id = 1 -- one\n  OR id = 2) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- a condition with a subquery
ACK q WHERE id IN (SELECT message_id FROM done LIMIT 10)
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (SELECT message_id FROM done LIMIT 10)) AND time_acked IS NULL
--> effects.uncertain: shop.q
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- nothing to ack
ACK q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (ACK takes ids or a condition: ACK q 101, 102 or ACK q WHERE id < 200)

-- no queue
ACK
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1

-- an empty condition
ACK q WHERE
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (a condition is needed)

-- unbalanced
ACK q WHERE id = 1) OR (1 = 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ') OR (1 = 1' at line 1

-- unclosed
ACK q WHERE (id = 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1

-- an executable comment cannot be looked into
ACK q WHERE id = 1 /*! ) OR (1 = 1 */ AND 1
--> error 1235 (42000): Executable comments (/*! ... */) are not supported inside queue statements

-- no clause of a SELECT
ACK q WHERE id > 5 GROUP BY id
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'GROUP BY id' at line 1

-- LIMIT belongs to UPDATE
ACK q WHERE id > 5 LIMIT 3
--> error 1235 (42000): ACK ... LIMIT is not supported; use UPDATE q SET state = 'acked' WHERE ... LIMIT n

-- a comma missing
ACK q 1 2
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '2' at line 1

-- a comma too many
ACK q 1,
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (ACK takes ids or a condition: ACK q 101, 102 or ACK q WHERE id < 200)

-- a name for an id
ACK q abc
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'abc' at line 1 (an id is a whole number, a quoted string or X'hex', or ?)

-- a negative id
ACK q -5
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (-5)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (-5)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- a hexadecimal id
ACK q 0x41
--> error 1366 (HY000): Incorrect integer value: 0x41 for column 'id' of queue 'q'

-- a fraction
ACK q 1.5
--> error 1235 (42000): '1.5' is not a message id: write a whole number, or WHERE id = ...

-- an expression
ACK q 1+1
--> error 1235 (42000): ACK takes whole numbers, quoted strings and ?, not an expression near '1+1'; use ACK q WHERE id = ...

-- a string that is no integer
ACK q 'abc'
--> error 1366 (HY000): Incorrect integer value: 'abc' for column 'id' of queue 'q'

-- out of range
ACK q 99999999999999999999
--> error 1366 (HY000): Out of range value: '99999999999999999999' for column 'id' of queue 'q'

-- more digits than any number has
ACK q 999999999999999999999999999999999
--> error 1366 (HY000): Out of range value: '999999999999999999999999999999999' for column 'id' of queue 'q'

-- an unended string
ACK q 'abc
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ACK q 'abc' at line 1 (a string, a quoted name or a comment does not end)

-- two statements
ACK q 1; ACK q 2
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ACK q 2' at line 1

-- no such queue
ACK nope 1
--> error 1146 (42S02): Queue 'shop.nope' doesn't exist

-- a table that cannot be served
ACK broken 1
--> error 1347 (HY000): 'broken' is not a queue: time_acked missing from message table: broken

-- no database
-- database: none
ACK q 1
--> error 1046 (3D000): No database selected

-- no database needed
-- database: none
ACK shop.q 1
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- names outside ASCII
ACK größe 1
--> Execute
--> sql: UPDATE `shop`.`größe` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> effects.settled: ((shop.größe, (1)))
--> effects.tally: (shop.größe, 'acked')
--> pins: VERB

-- double quotes as the session has it
-- modes: ANSI_QUOTES
ACK "q" 1
--> Execute
--> sql: UPDATE `shop`.`q` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (1)) AND time_acked IS NULL
--> effects.settled: ((shop.q, (1)))
--> effects.tally: (shop.q, 'acked')
--> pins: VERB

-- double quotes are a string otherwise
ACK "q" 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '"q" 1' at line 1

-- backslashes that are no escapes
-- modes: NO_BACKSLASH_ESCAPES
ACK uuids 'C:\'
--> error 1235 (42000): A backslash in a queue statement is not supported with sql_mode NO_BACKSLASH_ESCAPES

-- the fault is quoted from where it stands
ACK q
WHERE user_id = 3
HAVING 1
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'HAVING 1' at line 3

-- bytes as drivers write them: the table knows which messages they are
ACK uuids X'6b00', 0x61, _binary 'b'
--> Execute
--> sql: UPDATE `shop`.`uuids` SET time_acked = (NOW_NS()), time_next = NULL WHERE (id IN (X'6b00', 0x61, _binary 'b')) AND time_acked IS NULL
--> effects.uncertain: shop.uuids
--> effects.tally: (shop.uuids, 'acked')
--> pins: VERB
