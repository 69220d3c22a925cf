-- columns
CREATE QUEUE orders2 (user_id BIGINT(10), payload VARCHAR(256))
--> Execute
--> sql: CREATE TABLE `shop`.`orders2` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, user_id BIGINT(10), payload VARCHAR(256), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `orders2_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=orders2'
--> effects.catalog: shop.orders2

-- a trailing comma, comments, options
CREATE QUEUE IF NOT EXISTS other.`my queue` (
  user_id BIGINT(10),          -- who
  payload VARCHAR(256) NOT NULL DEFAULT 'a,b' COMMENT 'it''s, well', # what
) WITH (ack_wait = '2m', batch_size = 10, purge_after = 0, prefetch = 50,);
--> Execute
--> sql: CREATE TABLE IF NOT EXISTS `other`.`my queue` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, user_id BIGINT(10), payload VARCHAR(256) NOT NULL DEFAULT 'a,b' COMMENT 'it''s, well', KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `my queue_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=120,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=0,vt_batch_size=10,prefetch=50,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=my%20queue'
--> effects.catalog: other.my queue

-- no columns of one's own
CREATE QUEUE n ()
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- keys, checks and references are carried over as written
CREATE QUEUE n (
  user_id BIGINT NOT NULL,
  amount DECIMAL(10,2) CHECK (amount > 0),
  kind ENUM('a','b)') DEFAULT 'a',
  KEY by_user (user_id, kind),
  CONSTRAINT fk FOREIGN KEY (user_id) REFERENCES account (id) ON DELETE CASCADE
)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, user_id BIGINT NOT NULL, amount DECIMAL(10,2) CHECK (amount > 0), kind ENUM('a','b)') DEFAULT 'a', KEY by_user (user_id, kind), CONSTRAINT fk FOREIGN KEY (user_id) REFERENCES account (id) ON DELETE CASCADE, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an id of one's own, made the key
CREATE QUEUE n (id VARCHAR(36), payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, id VARCHAR(36) NOT NULL, payload TEXT, PRIMARY KEY (id), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an id that is a key already
CREATE QUEUE n (`ID` CHAR(36) NOT NULL PRIMARY KEY, payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, `ID` CHAR(36) NOT NULL PRIMARY KEY, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an id that is a key further down
CREATE QUEUE n (id BINARY(16), payload TEXT, PRIMARY KEY (`id`))
--> Execute
--> sql: CREATE TABLE `shop`.`n` (priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, id BINARY(16) NOT NULL, payload TEXT, PRIMARY KEY (`id`), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an id that is unique
CREATE QUEUE n (tenant INT, id INT AUTO_INCREMENT, PRIMARY KEY (tenant, id), UNIQUE (id))
--> Execute
--> sql: CREATE TABLE `shop`.`n` (priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, tenant INT, id INT AUTO_INCREMENT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (id), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an id in a longer key becomes unique
CREATE QUEUE n (tenant INT, id VARCHAR(36), PRIMARY KEY (tenant, id))
--> Execute
--> sql: CREATE TABLE `shop`.`n` (priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, tenant INT, id VARCHAR(36) NOT NULL, PRIMARY KEY (tenant, id), UNIQUE KEY (id), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- another primary key: ours is unique
CREATE QUEUE n (code CHAR(8) PRIMARY KEY, payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, code CHAR(8) PRIMARY KEY, payload TEXT, UNIQUE KEY (id), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- columns of the queue's own, with another type
CREATE QUEUE n (priority INT, epoch BIGINT NOT NULL DEFAULT 0, payload TEXT, time_created BIGINT COMMENT 'ns')
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, priority INT NOT NULL DEFAULT 50, epoch BIGINT NOT NULL DEFAULT 0, payload TEXT, time_created BIGINT COMMENT 'ns' NOT NULL DEFAULT (NOW_NS()), KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- time_next follows time_scheduled, wherever that stands
CREATE QUEUE n (payload TEXT, time_scheduled BIGINT, note TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), note TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- time_next of one's own
CREATE QUEUE n (payload TEXT, time_next BIGINT DEFAULT 0, time_acked BIGINT DEFAULT NULL)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, time_next BIGINT DEFAULT 0, time_acked BIGINT DEFAULT NULL, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- state of another type
CREATE QUEUE n (state ENUM('to_be_fired', 'fired', 'acked'), payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, state ENUM('to_be_fired', 'fired', 'acked') GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- Vitess's keys in a comment
CREATE QUEUE n (payload TEXT) COMMENT 'vitess_message,vt_ack_wait=1,vt_purge_after=3,vt_message_cols=id|payload'
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=1,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=3,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,vt_message_cols=id|payload,queuegate_table=n'
--> effects.catalog: shop.n

-- both
CREATE QUEUE n (payload TEXT) COMMENT = 'vt_ack_wait=1' WITH (batch_size = 5)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=1,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=5,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- message_cols
CREATE QUEUE n (a TEXT, b TEXT) WITH (message_cols = 'id|b|epoch')
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, a TEXT, b TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,vt_message_cols=id|b|epoch,queuegate_table=n'
--> effects.catalog: shop.n

-- an existing queue
CREATE QUEUE q (payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`q` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `q_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=q'
--> effects.catalog: shop.q

-- an existing queue that may exist
CREATE QUEUE IF NOT EXISTS q (payload TEXT)
--> Execute
--> sql: CREATE TABLE IF NOT EXISTS `shop`.`q` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `q_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=q'
--> effects.catalog: shop.q

-- no columns
CREATE QUEUE n
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1 (CREATE QUEUE needs columns: CREATE QUEUE q (user_id BIGINT, payload VARCHAR(256)))

-- an empty item
CREATE QUEUE n (a INT,, b INT)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ', b INT)' at line 1

-- a column without a type
CREATE QUEUE n (a)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ')' at line 1 (a column needs a name and a type)

-- an unclosed list
CREATE QUEUE n (a INT, b INT
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near '' at line 1

-- a list closed twice
CREATE QUEUE n (a INT))
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near ')' at line 1 (after the columns: SHARDING KEY (column), WITH (option = value, ...))

-- table options
CREATE QUEUE n (a INT) ENGINE=InnoDB
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'ENGINE=InnoDB' at line 1 (after the columns: SHARDING KEY (column), WITH (option = value, ...))

-- LIKE
CREATE QUEUE n LIKE q
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'LIKE q' at line 1 (CREATE QUEUE needs columns: CREATE QUEUE q (user_id BIGINT, payload VARCHAR(256)))

-- no database
-- database: none
CREATE QUEUE n (a INT)
--> error 1046 (3D000): No database selected

-- an unknown option
CREATE QUEUE n (a INT) WITH (colour = 'red')
--> error 1231 (42000): unknown queue option 'colour'; allowed: ack_wait, alarm_after, archive, backoff, batch_size, cache_size, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_backoff, max_concurrency, max_rate, message_cols, min_backoff, on_failure, order_key, paused, poll_interval, prefetch, purge_after, sharding_key, sticky_wait

-- an option that is only kept
CREATE QUEUE n (a INT) WITH (max_attempts = 5)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, a INT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,max_attempts=5,queuegate_table=n'
--> effects.catalog: shop.n

-- an absurd option
CREATE QUEUE n (a INT) WITH (ack_wait = -5)
--> error 1231 (42000): ack_wait: '-5' is not a duration; give seconds, or '500ms', '30s', '5m', '2h', '1d'

-- a word for an option
CREATE QUEUE n (a INT) WITH (ack_wait = long)
--> error 1064 (42000): You have an error in your SQL syntax; check the queuegate manual for the right syntax to use near 'long)' at line 1 (an option takes a number or a quoted string)

-- an option twice
CREATE QUEUE n (a INT) WITH (ack_wait = 5, ACK_WAIT = 6)
--> error 1231 (42000): option 'ack_wait' is given twice

-- options that contradict each other
CREATE QUEUE n (a INT) WITH (min_backoff = '2h', max_backoff = '1h')
--> error 1231 (42000): max_backoff is shorter than min_backoff (which is ack_wait when not given): 3600s and 7200s

-- message_cols without id
CREATE QUEUE n (a INT) WITH (message_cols = 'a')
--> error 1231 (42000): message_cols must begin with id: 'a'

-- message_cols that are not there
CREATE QUEUE n (a INT) WITH (message_cols = 'id|nope')
--> error 1231 (42000): message_cols: 'nope' is not a column of the queue

-- prose in the comment
CREATE QUEUE n (a INT) COMMENT 'my queue'
--> error 1231 (42000): COMMENT of a queue: 'my queue' is not an option; allowed: alarm_after, archive, backoff, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_concurrency, max_rate, on_failure, order_key, paused, prefetch, sticky_wait, vt_ack_wait, vt_batch_size, vt_cache_size, vt_max_backoff, vt_message_cols, vt_min_backoff, vt_poller_interval, vt_purge_after, vt_sharding_key

-- an unknown key in the comment
CREATE QUEUE n (a INT) COMMENT 'vt_colour=red'
--> error 1231 (42000): COMMENT of a queue: 'vt_colour=red' is not an option; allowed: alarm_after, archive, backoff, dead_letter, dead_letter_of, group_key, keep_attempts, max_attempts, max_concurrency, max_rate, on_failure, order_key, paused, prefetch, sticky_wait, vt_ack_wait, vt_batch_size, vt_cache_size, vt_max_backoff, vt_message_cols, vt_min_backoff, vt_poller_interval, vt_purge_after, vt_sharding_key

-- an option in both
CREATE QUEUE n (a INT) COMMENT 'vt_ack_wait=1' WITH (ack_wait = 2)
--> error 1231 (42000): option 'ack_wait' is given twice

-- an id that may be NULL
CREATE QUEUE n (id VARCHAR(36) NULL)
--> error 1235 (42000): Column 'id' is one of the queue's own: it must not allow NULL, for every message needs an id, or leave it out

-- a time of another type
CREATE QUEUE n (time_next DATETIME)
--> error 1235 (42000): Column 'time_next' is one of the queue's own: its type must be BIGINT, or leave it out

-- a priority of another type
CREATE QUEUE n (priority VARCHAR(3))
--> error 1235 (42000): Column 'priority' is one of the queue's own: its type must be BIGINT or INT or INTEGER or MEDIUMINT or SMALLINT or TINYINT, or leave it out

-- time_next that must allow NULL
CREATE QUEUE n (time_next BIGINT NOT NULL DEFAULT 0)
--> error 1235 (42000): Column 'time_next' is one of the queue's own: it must allow NULL: time_next of an acked message, the others of a new one, or leave it out

-- messages acked at birth
CREATE QUEUE n (time_acked BIGINT DEFAULT 0)
--> error 1235 (42000): Column 'time_acked' is one of the queue's own: its default must be NULL: a new message is not acked, or leave it out

-- a state that is not generated
CREATE QUEUE n (state VARCHAR(20) NOT NULL DEFAULT 'new')
--> error 1235 (42000): Column 'state' is one of the queue's own: give only its type; it is generated, or leave it out

-- an epoch that is computed
CREATE QUEUE n (epoch INT GENERATED ALWAYS AS (1))
--> error 1235 (42000): Column 'epoch' is one of the queue's own: it must be an ordinary column, or leave it out

-- double quotes as the session has it
-- modes: ANSI_QUOTES
CREATE QUEUE "n" ("a" INT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, "a" INT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- columns that are counted with are never NULL
CREATE QUEUE n (priority INT DEFAULT 5, epoch INT DEFAULT 0, payload TEXT)
--> Execute
--> sql: CREATE TABLE `shop`.`n` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, priority INT DEFAULT 5 NOT NULL, epoch INT DEFAULT 0 NOT NULL, payload TEXT, KEY queuegate_due (time_acked, priority, time_next), CONSTRAINT `n_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,queuegate_table=n'
--> effects.catalog: shop.n

-- an epoch that may be NULL
CREATE QUEUE n (epoch INT DEFAULT NULL)
--> error 1235 (42000): Column 'epoch' is one of the queue's own: it must not be NULL, or leave it out

-- a sharding key
CREATE QUEUE mails (user_id BIGINT NOT NULL, body TEXT) SHARDING KEY (user_id) USING binary_md5 WITH (ack_wait = '30s')
--> Execute
--> sql: CREATE TABLE `shop`.`mails` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, user_id BIGINT NOT NULL, body TEXT, queuegate_slot SMALLINT UNSIGNED GENERATED ALWAYS AS (CONV(LEFT(MD5(`user_id`), 4), 16, 10)) STORED, KEY queuegate_due (time_acked, priority, time_next, id, queuegate_slot), CONSTRAINT `mails_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,vt_sharding_key=user_id,queuegate_table=mails'
--> effects.catalog: shop.mails

-- a sharding key that is a CHAR, as an option
CREATE QUEUE mails (`user` CHAR(36) NOT NULL) WITH (sharding_key = 'user')
--> Execute
--> sql: CREATE TABLE `shop`.`mails` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, time_scheduled BIGINT NOT NULL DEFAULT (NOW_NS()), time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0, time_created BIGINT NOT NULL DEFAULT (NOW_NS()), time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL, first_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, last_error VARCHAR(1000) CHARACTER SET utf8mb4 NULL, failed_attempts MEDIUMTEXT CHARACTER SET utf8mb4 NULL, lease_token BIGINT NOT NULL DEFAULT 0, `user` CHAR(36) NOT NULL, queuegate_slot SMALLINT UNSIGNED GENERATED ALWAYS AS (CONV(LEFT(MD5(RTRIM(`user`)), 4), 16, 10)) STORED, KEY queuegate_due (time_acked, priority, time_next, id, queuegate_slot), CONSTRAINT `mails_chk_times_ns` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000) AND (time_next <= 0 OR time_next >= 946684800000000000))) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30,vt_min_backoff=1,vt_max_backoff=3600,vt_purge_after=86400,vt_batch_size=100,prefetch=1000,vt_cache_size=10000,vt_poller_interval=30,vt_sharding_key=user,queuegate_table=mails'
--> effects.catalog: shop.mails

-- a sharding key by another vindex
CREATE QUEUE mails (user_id BIGINT NOT NULL) SHARDING KEY (user_id) USING xxhash
--> error 1235 (42000): SHARDING KEY USING xxhash is not supported: the database computes a message's place, and can compute binary_md5 alone; leave USING out
