"""What the fuzzer's oracle takes for the gate's own: the statements of the golden tests, and nothing beside them."""

from __future__ import annotations

import fuzz_paths  # noqa: F401
import pytest
from fuzz_provenance import Provenance

NOW = "(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000)"
_SET_ASIDE = "(time_next IS NULL OR time_next < 9223372036854775806)"
_ACKED = f"UPDATE `main`.`fq` SET time_acked = {NOW}, time_next = NULL WHERE"
_REASON = "_utf8mb4 X'69742773'"  # it's
_ALL_TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
_VISIBLE = f"{_ALL_TABLES} AND (TABLE_COMMENT LIKE '%vitess_message%' OR TABLE_COMMENT LIKE 'queuegate_topic%'"
_VISIBLE += " OR TABLE_COMMENT LIKE 'queuegate_schedules%')"
_MOMENT = "CAST(UNIX_TIMESTAMP('2026-01-02 03:04') * 1000000000 AS SIGNED)"
_BEGINS = "SELECT CAST(UNIX_TIMESTAMP(TIMESTAMP('2026-01-02 03:04')) * 1000000000 AS SIGNED)"
_SINCE = "SELECT `id`, `payload` FROM `main`.`fe` WHERE time_scheduled <="
_OF_GROUP = "COMMENT='vitess_message,vt_ack_wait=30,paused=1,topic=fe,consumer_group=g,queuegate_table=fe_group_g'"
_DELIVERED = "time_acked IS NULL AND (epoch > 0 OR queuegate_sought = 0)"
_TOPIC = (
    f"CREATE TABLE `main`.`fe` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT"
    f" {NOW}, time_created BIGINT NOT NULL DEFAULT {NOW}, payload TEXT, KEY (payload(9)), KEY queuegate_time"
    " (time_created), CONSTRAINT `fe_times` CHECK ((time_scheduled <= 0 OR time_scheduled >= 946684800000000000)))"
    " COMMENT='queuegate_topic,queuegate_table=fe'"
)
_HEADER = "SELECT CAST('' AS CHAR(64)) AS `queue` FROM (SELECT 1 AS qg_one) AS qg_none WHERE 1 = 0"
_SUBSCRIPTIONS = f"({_HEADER} UNION ALL SELECT * FROM ({_HEADER} UNION ALL SELECT 'fq' UNION ALL SELECT 'fq2') AS qg_0)"

_ATTEMPT = (
    "failed_attempts = CONCAT('[', IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX("
    f"SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2), {_REASON}, -9), {_REASON}), ''),"
    ' \'{"attempt": \', epoch, \', "at": "\','
    f" UTC_TIMESTAMP(6), {_REASON}, {_REASON}, {_REASON})"
)

MADE = [
    ("ACK fq 1, 2", f"{_ACKED} (id IN (1, 2)) AND time_acked IS NULL"),
    ("ack fq '1'", f"{_ACKED} (id IN (1)) AND time_acked IS NULL"),
    ("ACK fq WHERE id > 7 OR (1 = 1)", f"{_ACKED} (id > 7 OR (1 = 1)) AND time_acked IS NULL"),
    ("SELECT queue_ack('fq', 7)", f"{_ACKED} (id IN (7)) AND time_acked IS NULL"),
    (
        "UPDATE fq SET state = 'acked', payload = 'x' WHERE id = 1 ORDER BY id LIMIT 1",
        f"UPDATE fq SET time_acked = {NOW}, time_next = NULL, payload = 'x' WHERE (id = 1) AND time_acked IS NULL"
        " ORDER BY id LIMIT 1",
    ),
    (
        "NACK fq 3 DELAY 30 REASON 'it''s'",
        f"UPDATE `main`.`fq` SET time_next = {NOW} + 30000000000, {_ATTEMPT},"
        f" first_error = COALESCE(first_error, {_REASON}),"
        f" last_error = {_REASON} WHERE (id IN (3)) AND time_acked IS NULL AND epoch > 0 AND {_SET_ASIDE}",
    ),
    (
        "NACK fo 1 DELAY 2",
        f"UPDATE `main`.`fo` SET time_next = IF(epoch >= 2, 9223372036854775806, {NOW} + 2000000000), {_ATTEMPT}"
        f" WHERE (id IN (1)) AND time_acked IS NULL AND epoch > 0 AND {_SET_ASIDE}",
    ),
    (
        "RELEASE fq 6",
        f"UPDATE `main`.`fq` SET time_next = LEAST(time_scheduled, {NOW}), epoch = epoch - 1 WHERE (id IN (6)) AND"
        f" (time_acked IS NULL AND epoch > 0 AND time_next > {NOW} AND MOD(time_next, 1000) IN (1, 3))",
    ),
    (
        "RETRY fq NOW WHERE payload = 'a'",
        f"UPDATE `main`.`fq` SET time_next = {NOW} WHERE (payload = 'a') AND time_acked IS NULL AND time_next > {NOW}"
        " AND time_next < 9223372036854775806 AND NOT (epoch > 0 AND MOD(time_next, 1000) IN (1, 3))",
    ),
    (
        "REDRIVE fq_dead LIMIT 5",
        "UPDATE `main`.`fq_dead` SET time_next = 9223372036854775805 WHERE time_acked IS NULL AND"
        f" {_SET_ASIDE} ORDER BY time_next, id LIMIT 5",
    ),
    ("ALTER QUEUE fq PAUSE", "ALTER TABLE `main`.`fq` COMMENT='vitess_message,vt_ack_wait=30,paused=1'"),
    (
        "ALTER QUEUE fq SET (order_key = 'payload')",
        "ALTER TABLE `main`.`fq` ADD KEY `queuegate_order` (`payload`, time_acked, id), COMMENT='vitess_message'",
    ),
    ("CREATE SCHEDULE s ON fq EVERY '1d' (payload) VALUES ('it''s')", "SAVEPOINT queuegate_trial"),
    (
        "CREATE SCHEDULE s ON fq EVERY '1d' (payload) VALUES ('it''s')",
        f"INSERT INTO `main`.`fq` (`payload`, `time_scheduled`) VALUES ({_REASON}, 1770000000000000000)",
    ),
    (
        "CREATE SCHEDULE s ON fq EVERY '1d' (payload) VALUES ('it''s')",
        f"INSERT INTO `main`.`queuegate_schedules` (name, cron, every_ns) VALUES ({_REASON}, NULL, 86400)",
    ),
    (
        "RUN SCHEDULE s",
        f"SELECT HEX(name), next_tick FROM `main`.`queuegate_schedules` WHERE name = {_REASON}",
    ),
    (
        "ALTER SCHEDULE s PAUSE",
        f"UPDATE `main`.`queuegate_schedules` SET paused = 1, time_changed = 5 WHERE name = {_REASON}",
    ),
    ("DROP SCHEDULE s", f"DELETE FROM `main`.`queuegate_schedules` WHERE name = {_REASON}"),
    ("DROP QUEUE fq", "DROP TABLE `main`.`fq`"),
    ("TRUNCATE QUEUE fq", "DELETE FROM `main`.`fq`"),
    ("DROP QUEUE IF EXISTS fq", "DROP TABLE IF EXISTS `main`.`fq`"),
    ("CREATE TOPIC fe (payload TEXT,\n KEY (payload(9)) )", _TOPIC),
    ("CREATE GROUP g ON fe", f"CREATE TABLE `main`.`fe_group_g` (id BIGINT) {_OF_GROUP} DEFAULT CHARSET=latin1"),
    ("CREATE GROUP g ON fe", f"ALTER TABLE `main`.`fe_group_g` {_OF_GROUP.replace('paused=1,', '')}"),
    ("CREATE GROUP g ON fe", "SELECT @@auto_increment_increment"),
    ("CREATE GROUP g ON fe", "DROP TABLE `main`.`fe_group_g`"),
    ("CREATE GROUP g ON fe START AT TIMESTAMP '2026-01-02 03:04'", _BEGINS),
    ("SELECT * FROM STREAM fe WITH (start = ' 2026-01-02 03:04')", _BEGINS),
    ("ALTER GROUP g ON fe SEEK TO '2026-01-02 03:04'", _BEGINS),
    ("ALTER GROUP g ON fe SEEK TO OFFSET 7", "DELETE FROM `main`.`fe_group_g` WHERE 1 = 0"),
    ("ALTER GROUP g ON fe RESUME", f"ALTER TABLE `main`.`fe_group_g` {_OF_GROUP}"),
    ("DROP GROUP g ON fe", "DROP TABLE `main`.`fe_group_g`"),
    ("DROP GROUP g ON fe", "DROP TABLE `main`.`fe_group_g`, `main`.`fe_group_g_dead`"),
    ("CREATE GROUP g ON fe", "SELECT 1 FROM `main`.`fe` WHERE 1 = 0 AND (`id` IS NULL OR `payload` IS NULL)"),
    ("REDRIVE fe GROUP g", "INSERT INTO `main`.`fe_group_g` (`id`, `epoch`) SELECT `id`, 0 FROM"
     " `main`.`fe_group_g_dead` WHERE time_acked IS NULL AND time_next = 9223372036854775805 AND NOT (id) IN"
     " (SELECT there.id FROM `main`.`fe_group_g` AS there)"),
    ("DROP TOPIC fe", "DROP TABLE `main`.`fe`"),
    ("DROP TOPIC nowhere", "UPDATE `main`.`nowhere` SET time_next = 0 WHERE 1 = 0"),
    ("SHOW CONSUMERS ON ft", "UPDATE `main`.`ft` SET time_next = 0 WHERE 1 = 0"),
    (
        "RENEW fo 2 FOR 30",
        f"UPDATE `main`.`fo` SET time_next = {NOW} + IF(MOD(time_next, 1000) = 3, 30000000003, 30000000001) WHERE"
        f" (id IN (2)) AND time_acked IS NULL AND epoch > 0 AND {_SET_ASIDE}",
    ),
    (
        "EXPLAIN DELIVERY FOR fq LIMIT 1",
        "SELECT CASE WHEN source_id IS NULL THEN CASE id WHEN 1 THEN 0 WHEN 2 THEN 1 END ELSE CASE source_id WHEN"
        " _utf8mb4 X'31' THEN 0 WHEN _utf8mb4 X'32' THEN 1 END END FROM `main`.`fq_dead` WHERE time_acked IS NULL AND"
        " (((source_id IS NULL AND id IN (1, 2)) OR source_id IN (_utf8mb4 X'31', _utf8mb4 X'32')) AND (source IS NULL"
        " OR source = _utf8mb4 X'6671'))",
    ),
    (
        "EXPLAIN DELIVERY FOR fq WHERE id IN (1, 2)",
        "SELECT CASE id WHEN 1 THEN 0 WHEN 2 THEN 1 END FROM `main`.`fq` WHERE id IN (1, 2)",
    ),
    ("ACK fe 7 GROUP g", f"DELETE FROM `main`.`fe_group_g` WHERE (id IN (7)) AND {_DELIVERED}"),
    ("ACK fe WHERE payload = 'a'", f"DELETE FROM `main`.`fe_group_g` WHERE (payload = 'a') AND {_DELIVERED}"),
    ("SELECT * FROM STREAM fe SINCE EARLIEST", f"{_SINCE} {NOW} ORDER BY id"),
    ("STREAM * FROM fe SINCE OFFSET 3 UNTIL LATEST LIMIT 2", f"{_SINCE} {NOW} AND id >= 3 ORDER BY id LIMIT 2"),
    (
        "SELECT * FROM STREAM fe UNTIL '2026-01-02 03:04' WHERE id > 7",
        f"{_SINCE} {NOW} AND time_created <= {_MOMENT} AND (id > 7) ORDER BY id",
    ),
    (
        "SELECT * FROM STREAM fe SINCE '2026-01-02 03:04'",
        f"{_SINCE} {NOW} AND time_created >= {_MOMENT} AND id >= CAST((SELECT MIN(id) FROM (SELECT id FROM"
        f" `main`.`fe` WHERE time_created >= {_MOMENT} ORDER BY time_created LIMIT 1000)"
        " AS qg_since) AS SIGNED) - 100000 ORDER BY id",
    ),
    ("SELECT * FROM STREAM fe WITH (mode = 'broadcast')", "SELECT 1 FROM `main`.`fe` WHERE 1 = 0 AND (`id` IS NULL)"),
    ("ACK fq WHERE", "UPDATE `main`.`fq` SET time_next = 0 WHERE 1 = 0"),
    ("SELECT @@socket, @@wait_timeout", "SELECT '' AS `@@socket`, @@wait_timeout"),
    ("SELECT 'open; DELETE FROM fg WHERE at = '2026-01-01' + INTERVAL ? SECOND",
     "DELETE FROM fg WHERE at = '2026-01-01' + INTERVAL 1 SECOND"),
    ("select DATABASE(), USER() limit 1", "select DATABASE(), 'app@192.0.2.1' AS `USER()` limit 1"),
    ("SHOW VARIABLES LIKE 'a%'",
     "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'port') AND (Variable_name LIKE 'a%'\n)"),
    ("SELECT @@Global.socket AS `socket`", "SELECT '' AS `socket`"),
    ("SELECT * FROM STREAM fq", "UPDATE `main`.`fq` SET epoch = epoch WHERE 1 = 0 AND (`id` IS NULL OR `n` IS NULL)"),
    ("SELECT * FROM STREAM fq WHERE id<100", "SELECT 1 FROM `main`.`fq` WHERE ((id) < 100) LIMIT 0"),
    (
        "EXPLAIN DELIVERY FOR fq WHERE id = 42",
        f"SELECT {NOW} AS qg_now, `main`.`fq`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS qg_time_next,"
        " time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier,"
        " NULL AS qg_held, NULL AS qg_failed_attempts"
        " FROM `main`.`fq` WHERE (id = 42) ORDER BY id LIMIT 20",
    ),
    ("TRACE MESSAGE 7 ON fe", "SELECT time_created, id FROM `main`.`fe` WHERE id = 7"),
    (
        "TRACE MESSAGE-1 ON fq",
        "SELECT CASE id WHEN -1 THEN 0 END FROM `main`.`fq_dead` WHERE time_acked IS NULL AND (id IN (-1))",
    ),
    ("INSERT INTO fq SET payload = 'a' AFTER GROUP 'b' OF fg\x1c", "INSERT INTO fq SET payload = 'a'\x1c"),
    (
        "trace message 42 on fe",
        f"SELECT {NOW} AS qg_now, `main`.`fe_group_g`.id AS qg_id, COALESCE(epoch, 0) AS qg_epoch, time_next AS"
        " qg_time_next, time_acked AS qg_time_acked, NULL AS qg_slot, last_error AS qg_last_error, NULL AS qg_earlier,"
        " NULL AS qg_held, NULL AS qg_failed_attempts"
        " FROM `main`.`fe_group_g` WHERE (id = 42) ORDER BY id LIMIT 20",
    ),
    ("SELECT queuegate.queues.db FROM queuegate.queues", "SELECT `queues`.db FROM `queuegate`.`queues` AS `queues`"),
    ("SELECT s.queue FROM queuegate.subscriptions s, ft", f"SELECT s.queue FROM {_SUBSCRIPTIONS} s, ft"),
    ("INSERT INTO fq (id) VALUES (7) AFTER GROUP 3", "INSERT INTO fq (id, time_next) VALUES (7, 9223372036854775807)"),
    (
        "INSERT INTO fq SET payload = 'a'/**/AFTER GROUP 'b' OF fg",
        "INSERT INTO fq SET payload = 'a', time_next = 9223372036854775807/**/",
    ),
    (
        "-- x\nINSERT IGNORE INTO fq SET payload = ? AFTER GROUP 'b' OF fg",
        "-- x\nINSERT IGNORE INTO fq SET payload = DATE '2026-01-01', time_next = 9223372036854775807",
    ),
    (
        "UPDATE-- x\nfg SET time_acked =#x\n?, time_next/**/= NULL WHERE id/* x */= ?",
        "UPDATE-- x\nfg SET time_acked =#x\n1, time_next/**/= NULL WHERE id/* x */= 7",
    ),
    ("DELETE FROM fq WHERE id = 5", "SELECT `n` FROM fq WHERE (id = 5) AND time_acked IS NULL FOR UPDATE"),
    ("DELETE FROM fq", "SELECT 1 FROM `main`.`fq` WHERE time_acked IS NULL AND `n` = 7 LIMIT 1 FOR UPDATE"),
    ("DELETE FROM fg WHERE id > CURDATE() AND payload = ?", "DELETE FROM fg WHERE id > CURDATE() AND payload = 1"),
    ("ACK fq 1", "SAVEPOINT queuegate_unit"),
    (
        "INSERT INTO fq (payload) VALUES ('a') AFTER GROUP 'a' OF fg ;",
        "INSERT INTO fq (payload, time_next) VALUES ('a', 9223372036854775807) ;",
    ),
    (
        "DELETE FROM fg WHERE id IN (?)",
        "SELECT `payload` FROM fg WHERE (id IN ('2026-01-02 00:00:00')) AND time_acked IS NULL FOR UPDATE",
    ),
    ("ACK fq ()", f"{_ACKED} (FALSE) AND time_acked IS NULL"),
    ("NACK fq ()", f"UPDATE `main`.`fq` SET time_next = {NOW} WHERE (FALSE) AND time_acked IS NULL AND {_SET_ASIDE}"),
    ("DESCRIBE DELIVERY FOR fq LIMIT 1", "SELECT CASE id WHEN 1 THEN 0 END FROM `main`.`fq` WHERE id IN (1)"),
    ("INSERT INTO fq (epoch, state) VALUES (NULL, NULL)", "INSERT INTO fq (epoch, state) VALUES (DEFAULT, DEFAULT)"),
    ("USE queuegate", "USE information_schema"),
    ("SELECT 1 FROM queues WHERE db = DATABASE()  -- queuegate", "SELECT 1 FROM queues WHERE db = 'queuegate'"),
    (
        "SELECT * FROM information_schema.tables t WHERE table_schema = 'queuegate'",
        "SELECT * FROM (SELECT * FROM information_schema.TABLES UNION ALL SELECT * FROM (SELECT * FROM"
        " information_schema.TABLES WHERE 1 = 0 UNION ALL SELECT 'def', CAST(10 AS UNSIGNED), CAST(NULL AS UNSIGNED),"
        " NULL) AS qg_0) t WHERE table_schema = 'queuegate'",
    ),
    (
        "SELECT tables.table_name FROM information_schema.tables WHERE table_schema = 'queuegate'",
        "SELECT tables.table_name FROM information_schema.`TABLES` AS `tables` WHERE table_schema = 'queuegate'",
    ),
]  # fmt: skip

NOT_MADE = [
    ("TRACE MESSAGE 7 ON fe", "SELECT time_created, id FROM `main`.`fe` WHERE id = 8"),
    ("SELECT 7", "SELECT time_created, id FROM `main`.`fe` WHERE id = 7"),
    ("ACK fq 1, 2", f"{_ACKED} (id IN (1, 3)) AND time_acked IS NULL"),
    ("ACK fq 1", f"{_ACKED} (id IN (1))"),
    ("ACK fq 1", f"UPDATE `main`.`fq` SET time_acked = {NOW}, epoch = 0 WHERE (id IN (1)) AND time_acked IS NULL"),
    ("ACK fq WHERE id > 7", f"{_ACKED} (id > 6 OR payload) AND time_acked IS NULL"),
    ("NACK fq 1", f"{_ACKED} (id IN (1)) OR time_acked IS NULL"),
    ("SELECT 1", f"{_ACKED} (id IN (1)) AND time_acked IS NULL"),
    (
        "UPDATE fq SET state = 'acked' WHERE id = 1",
        f"UPDATE ft SET time_acked = {NOW}, time_next = NULL WHERE (id = 1) AND time_acked IS NULL",
    ),
    ("RETRY fq NOW WHERE id = 1", f"UPDATE `main`.`fq` SET time_next = {NOW} WHERE (id = 1) AND time_acked IS NULL"),
    ("REDRIVE fq_dead", "DELETE FROM `main`.`fq_dead` WHERE time_acked IS NULL"),
    ("ALTER QUEUE fq PAUSE", "ALTER TABLE `main`.`fq` DROP COLUMN payload, COMMENT='vitess_message'"),
    ("ALTER TABLE fq ADD b INT", "ALTER TABLE `main`.`fq` COMMENT='vitess_message'"),
    ("DROP TABLE fq", "DROP TABLE `main`.`ft`"),
    ("DROP QUEUE fq", "DROP TABLE IF EXISTS `main`.`fq`"),
    ("DROP TABLE IF EXISTS fq", "DROP TABLE IF EXISTS `main`.`ft`"),
    ("CREATE QUEUE fq (payload JSON)", _ALL_TABLES),
    ("CREATE TOPIC fe (payload TEXT)", _TOPIC),
    ("CREATE TOPIC fe (payload TEXT, KEY (payload(9)))", _TOPIC.replace("PRIMARY KEY", "UNIQUE KEY")),
    ("CREATE GROUP g ON fe", "CREATE TABLE `main`.`ft` (id BIGINT) COMMENT='vitess_message,vt_ack_wait=30'"),
    ("CREATE GROUP g ON fe", "ALTER TABLE `main`.`fe` COMMENT='queuegate_topic'"),
    ("CREATE GROUP g ON fe START AT TIMESTAMP '2026-01-02'", _BEGINS),
    ("ALTER GROUP g ON fe SEEK TO EARLIEST", "DELETE FROM `main`.`fe_group_g`"),
    ("ALTER GROUP g ON fe PAUSE", "DELETE FROM `main`.`fe_group_g` WHERE 1 = 0"),
    ("DROP GROUP g ON fe", "DROP TABLE IF EXISTS `main`.`fe_group_g`"),
    ("DROP QUEUE fq", "DROP TABLE `main`.`fq`, `main`.`fq_dead`"),
    ("ACK fe 7 GROUP g", f"DELETE FROM `main`.`fe_group_g` WHERE (id IN (8)) AND {_DELIVERED}"),
    ("ACK fe 7 GROUP g", "DELETE FROM `main`.`fe_group_g` WHERE (id IN (7))"),
    ("SELECT * FROM STREAM fe SINCE EARLIEST", "SELECT `id` FROM `main`.`fe` ORDER BY id"),
    ("SELECT * FROM STREAM fe SINCE EARLIEST", f"{_SINCE} {NOW} AND (1 = 1) ORDER BY id"),
    ("SELECT * FROM STREAM fe", f"{_SINCE} {NOW} ORDER BY id"),
    ("ACK fq WHERE", "UPDATE `main`.`fq` SET time_next = 0"),
    ("SELECT @@socket, @@wait_timeout", "SELECT '' AS `@@socket`, @@datadir"),
    ("select DATABASE(), USER()", "select 'app@192.0.2.1' AS `USER()` FROM ft"),
    ("select DATABASE()", "select 'app@192.0.2.1' AS `USER()` "),
    ("SHOW VARIABLES LIKE 'a%'", "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit') AND (TRUE\n)"),
    ("SELECT @@wait_timeout", "SELECT '' AS `@@socket`, @@wait_timeout"),
    ("SELECT * FROM fq", "UPDATE `main`.`fq` SET epoch = epoch WHERE 1 = 0 AND (1 = 1)"),
    ("SELECT * FROM STREAM fq", "UPDATE `main`.`fq` SET epoch = epoch WHERE 1 = 0 OR (1 = 1)"),
    ("SELECT ready FROM queuegate.queues", "SELECT state FROM `queuegate`.`queues` AS `queues`"),
    ("SELECT 1 FROM queuegate.queues", "SELECT 1 FROM (SELECT name FROM ft) AS `queues`"),
    ("INSERT INTO fq (id) VALUES (7) AFTER GROUP 3", "INSERT INTO fq (id, time_acked) VALUES (7, 1)"),
    ("INSERT INTO fq (id) VALUES (7)", "INSERT INTO ft (id, time_next) VALUES (7, 9223372036854775807)"),
    ("ACK fq 1", "DELETE FROM ft"),
    ("ACK fq ()", f"{_ACKED} (TRUE) AND time_acked IS NULL"),
    ("INSERT INTO fq (priority) VALUES (NULL)", "INSERT INTO fq (priority) VALUES (DEFAULT)"),
    ("INSERT INTO fq (priority, state) VALUES (1, NULL)", "INSERT INTO fq (priority, state) VALUES (2, DEFAULT)"),
    (
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM (SELECT * FROM information_schema.TABLES UNION ALL SELECT * FROM (SELECT n FROM ft) AS qg_0)",
    ),
    ("SELECT * FROM information_schema.tables", "SELECT * FROM information_schema.`PROCESSLIST`"),
    ("DELETE FROM fg WHERE payload = ?", "DELETE FROM fg WHERE payload = 1 OR 1"),
    ("DELETE FROM fg WHERE payload = ?", "DELETE FROM fq WHERE payload = 1"),
    ("SELECT 1", "START TRANSACTION"),
]  # fmt: skip


def explained(sent: str, reached: str) -> bool:
    found = Provenance(b"\x03" + sent.encode())
    assert found.explains(b"\x03" + reached.encode()) == found.explains_sql(reached)
    return found.explains_sql(reached)


@pytest.mark.parametrize(("sent", "reached"), MADE)
def test_what_the_gate_makes_is_known(sent: str, reached: str) -> None:
    assert explained(sent, reached)


def test_which_queues_an_account_sees_is_asked_before_any_error() -> None:
    assert explained("SET NAMES'", _VISIBLE)


@pytest.mark.parametrize(("sent", "reached"), MADE)
def test_only_where_it_was_asked_for(sent: str, reached: str) -> None:
    assert not explained("SELECT 1 FROM elsewhere", reached)


@pytest.mark.parametrize(("sent", "reached"), NOT_MADE)
def test_what_it_would_never_make(sent: str, reached: str) -> None:
    assert not explained(sent, reached)
