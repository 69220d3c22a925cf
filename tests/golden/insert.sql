-- INSERT
INSERT INTO q (payload) VALUES ('a'), ('b')
--> pass through
--> touched shop.q

-- INSERT without INTO, qualified
insert ignore other . q2 set payload = 'a'
--> pass through
--> touched other.q2

-- INSERT in a comment for some versions
INSERT /*!99999 DELAYED */ INTO `q` (payload) SELECT name FROM account
--> pass through
--> touched shop.q

-- INSERT with ON DUPLICATE KEY UPDATE may change messages
INSERT INTO q (id, payload) VALUES (1, 'a') ON DUPLICATE KEY UPDATE time_acked = 1
--> pass through
--> touched shop.q
--> uncertain shop.q

-- REPLACE may end messages
REPLACE INTO q (id, payload) VALUES (1, 'a')
--> pass through
--> touched shop.q
--> uncertain shop.q

-- LOAD DATA
LOAD DATA LOCAL INFILE 'messages.csv' INTO TABLE q FIELDS TERMINATED BY ','
--> pass through
--> touched shop.q
--> uncertain shop.q

-- INSERT into another table
INSERT INTO account SELECT * FROM q
--> pass through

-- a queue of that name in another database
INSERT INTO elsewhere.q (payload) VALUES ('a')
--> pass through

-- no database
-- database: none
INSERT INTO q (payload) VALUES ('a')
--> pass through

-- a name outside ASCII
INSERT INTO größe (payload) VALUES ('a')
--> pass through
--> touched shop.größe

-- TRUNCATE TABLE
TRUNCATE TABLE q
--> pass through
--> uncertain shop.q
--> catalog

-- DROP TABLE
DROP TABLE IF EXISTS account, q
--> pass through
--> catalog

-- DROP DATABASE
DROP DATABASE shop
--> pass through
--> catalog

-- ALTER TABLE
ALTER TABLE orders ADD COLUMN note TEXT
--> pass through
--> catalog

-- ALTER TABLE of what cannot be served
ALTER TABLE broken ADD COLUMN time_acked BIGINT
--> pass through
--> catalog

-- ALTER TABLE of another table
ALTER TABLE account ADD COLUMN note TEXT
--> pass through

-- RENAME TABLE
RENAME TABLE q TO q_old
--> pass through
--> catalog

-- a Vitess table
CREATE TABLE m (id BIGINT PRIMARY KEY) COMMENT 'vitess_message,vt_ack_wait=30'
--> pass through
--> catalog

-- another table
CREATE TABLE account (id BIGINT PRIMARY KEY)
--> pass through

-- BEGIN
BEGIN
--> pass through
--> transaction begin

-- COMMIT
COMMIT
--> pass through
--> transaction commit

-- ROLLBACK TO
ROLLBACK TO SAVEPOINT a
--> pass through
--> transaction rollback to

-- anything
SELECT 1
--> pass through
