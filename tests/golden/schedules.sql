-- CREATE SCHEDULE by CRON
CREATE SCHEDULE nightly ON orders CRON '0 2 * * *' TIME ZONE 'Europe/Berlin' (payload, user_id) VALUES ('it''s', -7) WITH (missed = 'all')
--> CreateSchedule
--> name: shop.nightly
--> queue: shop.orders
--> if_not_exists: False
--> rule: CRON '0 2 * * *'
--> columns: ('payload', 'user_id')
--> values: ("it's", Number(text=-7))
--> missed: ALL

-- CREATE SCHEDULE by EVERY, in another database
create schedule if not exists other.often on other.q2 every '15m' values (NULL, TRUE, DEFAULT, TICK, X'00ff', 0x1, .5, 1e3);
--> CreateSchedule
--> name: other.often
--> queue: other.q2
--> if_not_exists: True
--> rule: EVERY '15m'
--> columns: None
--> values: (None, True, DEFAULT, TICK, b'\x00\xff', b'\x01', Number(text=.5), Number(text=1e3))
--> missed: ONCE

-- CREATE SCHEDULE in the database of its queue
CREATE SCHEDULE s ON other.q2 EVERY 1.5 (a) VALUES ('x')
--> CreateSchedule
--> name: other.s
--> queue: other.q2
--> if_not_exists: False
--> rule: EVERY '1500ms'
--> columns: ('a')
--> values: ('x')
--> missed: ONCE

-- CREATE SCHEDULE in another database than its queue's
CREATE SCHEDULE shop.s ON other.q2 EVERY '1d' (a) VALUES ('x')
--> error 1235 (42000): a schedule belongs to the database of its queue: name it `other`.`s`

-- CREATE SCHEDULE with ?
CREATE SCHEDULE s ON orders EVERY ? (payload) VALUES (?)
--> Rebind
--> sql: CREATE SCHEDULE s ON orders EVERY ? (payload) VALUES (?)
--> parameters: 2
--> column: None

-- CREATE SCHEDULE of an unknown queue
CREATE SCHEDULE s ON nothing EVERY '1d' (a) VALUES ('x')
--> error 1146 (42S02): Queue 'shop.nothing' doesn't exist

-- CREATE SCHEDULE with an expression
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES (CONCAT('a', 'b'))
--> error 1235 (42000): a schedule's VALUES are literals: strings, numbers, X'..', NULL, TRUE, FALSE, DEFAULT, and TICK for the time of the tick in nanoseconds; for anything else give the column a DEFAULT

-- CREATE SCHEDULE with a function that needs no parentheses
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES (CURRENT_USER)
--> error 1235 (42000): a schedule's VALUES are literals: strings, numbers, X'..', NULL, TRUE, FALSE, DEFAULT, and TICK for the time of the tick in nanoseconds; for anything else give the column a DEFAULT

-- CREATE SCHEDULE with a user variable
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES (@a)
--> error 1235 (42000): a schedule's VALUES are literals: strings, numbers, X'..', NULL, TRUE, FALSE, DEFAULT, and TICK for the time of the tick in nanoseconds; for anything else give the column a DEFAULT

-- CREATE SCHEDULE with two strings that follow each other
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES ('a' 'b')
--> error 1235 (42000): a schedule's VALUES are literals: strings, numbers, X'..', NULL, TRUE, FALSE, DEFAULT, and TICK for the time of the tick in nanoseconds; for anything else give the column a DEFAULT

-- CREATE SCHEDULE with two rows
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES ('a'), ('b')
--> error 1235 (42000): a schedule sends one message at each tick: give one row of VALUES

-- CREATE SCHEDULE with a name that is too long
CREATE SCHEDULE `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` ON orders EVERY '1d' (payload) VALUES ('a')
--> error 1059 (42000): Identifier name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' is too long

-- CREATE SCHEDULE without a rule
CREATE SCHEDULE s ON orders (payload) VALUES ('a')
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '(payload) VALUES ('a')' at line 1 (CREATE SCHEDULE s ON q CRON '0 2 * * *' (columns) VALUES (...), or EVERY '15m' in place of CRON)

-- CREATE SCHEDULE with an unknown option
CREATE SCHEDULE s ON orders EVERY '1d' (payload) VALUES ('a') WITH (retries = 3)
--> error 1231 (42000): unknown option 'retries' of a schedule; allowed: missed

-- ALTER SCHEDULE PAUSE
ALTER SCHEDULE nightly PAUSE
--> AlterSchedule
--> name: shop.nightly
--> paused: True

-- ALTER SCHEDULE RESUME
ALTER SCHEDULE `od``d`.`na``me` RESUME;
--> AlterSchedule
--> name: od`d.na`me
--> paused: False

-- ALTER SCHEDULE SET
ALTER SCHEDULE nightly SET (cron = '0 3 * * *', time_zone = DEFAULT, missed = 'skip')
--> AlterSchedule
--> name: shop.nightly
--> cron: 0 3 * * *
--> zone: UTC
--> missed: SKIP

-- ALTER SCHEDULE SET both rules
ALTER SCHEDULE nightly SET (cron = '0 3 * * *', every = '1d')
--> error 1231 (42000): every: a schedule has either cron, with a time_zone, or every

-- ALTER SCHEDULE of nothing
ALTER SCHEDULE nightly
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (ALTER SCHEDULE s takes PAUSE, RESUME or SET (option = value, ...))

-- DROP SCHEDULE
DROP SCHEDULE IF EXISTS nightly
--> DropSchedule
--> name: shop.nightly
--> if_exists: True

-- RUN SCHEDULE
RUN SCHEDULE nightly
--> RunSchedule
--> name: shop.nightly

-- RUN of something else
RUN nightly
--> Passthrough

-- SHOW SCHEDULES
SHOW SCHEDULES FROM other LIKE 'n%'
--> Show
--> view: SCHEDULES
--> database: other
--> like: n%

-- SHOW CREATE SCHEDULE
SHOW CREATE SCHEDULE nightly
--> Show
--> view: CREATE_SCHEDULE
--> database: shop
--> name: nightly

-- without a database
-- database: none
DROP SCHEDULE nightly
--> error 1046 (3D000): No database selected
