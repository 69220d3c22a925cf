"""SQL for the fuzzer: statements about queues as people write them, as nobody would, and with pieces out of place.

Everything comes out of the `random.Random` that is given, so a seed is a statement.
"""

from __future__ import annotations

from random import Random

import fuzz_queue_sql

OF_THE_GRAMMAR = 0.7  # of the statements; the others are ordinary ones about the same tables
QUEUES = (
    'fq', 'fq', 'main.fq', '`fq`', '`main`.`fq`', 'FQ', 'fq2', 'nowhere', 'ft', 'main . fq', '/* c */fq',
    'größe', 'fg', 'fg', 'main.fg', 'fq_dead', 'fe', 'fe_group_g',
)  # fmt: skip
SPACES = (
    ' ', ' ', ' ', '\n', '\t', '  ', '/**/', '/* x */', '-- x\n', '#x\n', '/*!*/', '/*!50000 */', '\r\n',
    '\x00',
)  # fmt: skip
_LITERALS = (
    '0', '1', '2', "'a'", '"b"', 'NULL', '-1', '1.5', '1e3', "x'00ff'", '0x10', "b'1'", "N'n'", "'it''s'",
    "'a\\'b'", '18446744073709551616', "''", "'\\\\'", 'TRUE', '?', '@v', 'CURRENT_TIMESTAMP', "'ü'",
    "_latin1'x'", "DATE '2026-01-01'", '(SELECT 1)', 'UNIX_TIMESTAMP()*1000000000',
)  # fmt: skip
_COLUMNS = (
    'id', 'payload', 'epoch', 'state', 'time_next', 'time_acked', 'priority', '*', '`id`', 'fq.id', 'nothing',
    'name',
)  # fmt: skip
_CONDITIONS = (
    'id = {v}', 'id IN ({v}, {v})', "state = 'acked'", 'id > {v} AND payload = {v}', 'id BETWEEN {v} AND {v}',
    'time_acked IS NULL', 'id = {v} OR 1 = 1', 'id', 'EXISTS (SELECT 1)', "payload LIKE '%;%'",
    "payload = 'a' AND id % 2 = 0", "UPPER(payload) IN ('A', {v})", 'id = 3', 'id IN (1, 2)',
)  # fmt: skip

_DURATIONS = ("30", "0", "'500ms'", "'5m'", "'2h'", "1.5", "?", "-1", "'5 m'", "''", "NULL", "99999999999")
_OPTIONS = (
    'ack_wait = {d}', 'max_attempts = {v}', "max_rate = 10.5", 'max_concurrency = 2', "order_key = 'payload'",
    "order_key = '*'", 'order_key = DEFAULT', "on_failure = 'skip'", "on_failure = 'dead_letter'",
    "group_key = 'payload'", "group_key = 'nothing'", "dead_letter = 'fq_dead'", 'prefetch = {v}',
    'purge_after = {d}', "message_cols = 'payload'", 'nonsense = {v}', 'batch_size = 7', 'archive = 1',
)  # fmt: skip
_SYSTEM = (
    'queuegate.queues', 'queuegate.subscriptions', 'queuegate.in_flight', '`queuegate`.`queues`',
    'QUEUEGATE . Queues', 'queuegate.nothing', 'queuegate.queues AS a', 'queuegate.in_flight a',
)  # fmt: skip

_TEMPLATES = (
    "ACK {q} {v}",
    "ACK {q} {v}, {v}, {v}",
    "ACK {q} WHERE {w}",
    "NACK {q} {v}",
    "NACK {q} {v} DELAY {d} REASON {v}",
    "NACK {q} (1, 2, 3) REASON 'it''s; HTTP 429'",
    "NACK {q} WHERE {w} DELAY {d}",
    "REJECT {q} {v}",
    "REJECT {q} 1, {v} REASON {v}",
    "REJECT {q} WHERE {w} REASON 'bad \\\\ JSON'",
    "RELEASE {q} {v}",
    "RELEASE {q} 1, 2, 3",
    "RELEASE {q} WHERE {w}",
    "RENEW {q} {v} FOR {d}",
    "RENEW {q} 1, {v} FOR '5m'",
    "RENEW {q} WHERE {w} FOR {d}",
    "REDRIVE {q}",
    "REDRIVE fq_dead",
    "REDRIVE fq_dead WHERE {w} LIMIT {v}",
    "REDRIVE {q} LIMIT 2",
    "RETRY {q} NOW",
    "RETRY {q} NOW WHERE {w}",
    "UPDATE {q} SET state = 'acked' WHERE {w}",
    "UPDATE {q} SET time_acked = {v}, time_next = NULL WHERE {w}",
    "UPDATE {q} SET {c} = {v} WHERE {w} ORDER BY {c} LIMIT {v}",
    "UPDATE {q} a, {q} b SET a.{c} = {v}",
    "DELETE FROM {q} WHERE {w}",
    "DELETE {q} FROM {q}",
    "DELETE FROM {q} WHERE {w} LIMIT {v}",
    "INSERT INTO {q} (payload) VALUES ({v}), ({v})",
    "INSERT {q} SET payload = {v}",
    "REPLACE INTO {q} (id) VALUES ({v})",
    "INSERT INTO {q} (payload) SELECT name FROM ft",
    "INSERT INTO {q} (id) VALUES ({v}) ON DUPLICATE KEY UPDATE id = {v}",
    "INSERT INTO {q} (payload) VALUES ({v}) AFTER GROUP {v} OF fg",
    "INSERT INTO fq (id, payload) VALUES (NULL, {v}) AFTER GROUP 'a' OF {q};",
    "INSERT IGNORE INTO fq SET payload = {v} AFTER GROUP 'b' OF main.fg",
    "INSERT fq (id) VALUES ({v}) AFTER GROUP 'nobody' OF fg",
    "INSERT INTO fq (payload) VALUES ({v}), ({v}) AFTER GROUP 'a' OF fg",
    "ACK fg {v}, 1, 2",
    "ACK fg WHERE {w}",
    "UPDATE fg SET state = 'acked', payload = {v} WHERE {w} ORDER BY id LIMIT 1",
    "UPDATE fg SET time_acked = 1, time_next = NULL WHERE id IN (1, {v}) AND time_acked IS NULL",
    "DELETE FROM fg WHERE {w}",
    "DELETE fg FROM fg WHERE {w} LIMIT 1",
    "SELECT {c} FROM STREAM {q} LIMIT {v} NOWAIT",
    "SELECT {c}, {c} FROM STREAM {q} LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM {q} LIMIT {v} WAIT 1",
    "SELECT * FROM STREAM {q}",
    "STREAM {c} FROM {q}",
    "SELECT {c} FROM STREAM {q} WHERE {w} LIMIT 1 NOWAIT",
    "SELECT {c} FROM STREAM fq WHERE payload LIKE {v} OR id BETWEEN {v} AND {v} NOWAIT",
    "SELECT * FROM STREAM fq WHERE id % 2 = {v} AND NOT payload <=> NULL WITH (ack_wait = {d}) LIMIT 2 WAIT {d}",
    "SELECT * FROM STREAM {q} WITH (prefetch = {v}) NOWAIT",
    "SELECT * FROM STREAM {q} WHERE id < 100 NOWAIT WITH (key_range = '-{v}')",
    "SHOW QUEUE {q} RANGES",
    "SELECT * FROM STREAM {q} LIMIT 1 NOWAIT WITH (keys = 'sticky')",
    "SELECT * FROM STREAM {q} NOWAIT WITH (keys = {v}, key_range = '-80')",
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY (k) USING {v}",
    "ALTER QUEUE {q} ADD SHARDING KEY (payload)",
    "ALTER QUEUE {q} DROP SHARDING KEY",
    "SELECT * FROM STREAM {q} NOWAIT WITH (key_range = '40-80,c0-')",
    "SELECT * FROM STREAM {q} NOWAIT",
    "SELECT {c} FROM {q} WHERE {w}",
    "SELECT {v}, {v} AS a",
    "SELECT COUNT(*) FROM {q}",
    "WITH x AS (SELECT {v}) SELECT * FROM x",
    "(SELECT {v}) UNION (SELECT {v})",
    "TABLE {q}",
    "VALUES ROW({v})",
    "SELECT queue_ack('{q}', {v})",
    "SELECT queue_ack('{q}', 1, 2) AS done FROM DUAL LIMIT 1",
    "SELECT queue_nack('{q}', {v}, {d}, {v})",
    "SELECT queue_release('fq', {v}, 2) n",
    "SELECT queue_renew('{q}', {v}, {d})",
    "SELECT queue_reject('fq', {v}, 'why')",
    "SELECT 1, queue_ack('fq', 1)",
    "CALL queue_ack('{q}', {v})",
    "CALL queue_nack('{q}', {v})",
    "CALL `queue_renew`('fq', 1, {d})",
    "CALL queue_reject(?, ?)",
    "CALL p({v})",
    "CREATE QUEUE {q} (payload TEXT)",
    "CREATE QUEUE IF NOT EXISTS {q} (payload VARCHAR(10), PRIMARY KEY (id), ) WITH (ack_wait = {v})",
    "CREATE QUEUE {q} (id VARCHAR(9) PRIMARY KEY, b BLOB) WITH (ack_wait = '2s', batch_size = {v})",
    "DROP QUEUE {q}",
    "DROP QUEUE IF EXISTS {q}",
    "TRUNCATE QUEUE {q}",
    "ALTER QUEUE {q} PAUSE",
    "ALTER QUEUE {q} RESUME",
    "ALTER QUEUE {q} SET ({o})",
    "ALTER QUEUE {q} SET ({o}, {o}, )",
    "CREATE QUEUE {q} (n INT, s TEXT) WITH ({o}, {o})",
    "CREATE TABLE t{v} (a INT)",
    "DROP TABLE {q}",
    "ALTER TABLE {q} ADD COLUMN z INT",
    "RENAME TABLE {q} TO {q}",
    "TRUNCATE {q}",
    "DROP TABLE IF EXISTS {q}, t1",
    "CREATE TABLE m (id INT) COMMENT 'vitess_message,vt_ack_wait={v}'",
    "CREATE TEMPORARY TABLE tmp (a INT)",
    "SHOW QUEUES",
    "SHOW QUEUES LIKE {v}",
    "SHOW QUEUES FROM main",
    "SHOW CREATE QUEUE {q}",
    "SHOW QUEUE STATUS",
    "SHOW QUEUE STATUS LIKE {v}",
    "SHOW QUEUE STATUS FROM main LIKE 'f%'",
    "SHOW SUBSCRIPTIONS",
    "SHOW SUBSCRIPTIONS LIKE 'fq'",
    "SELECT queue, ready FROM queuegate.queues WHERE {w}",
    "SELECT * FROM {s} WHERE ready > {v} ORDER BY 1",
    "SELECT a.queue FROM {s} JOIN {s} b ON a.queue = b.queue",
    "WITH x AS (SELECT * FROM {s}) SELECT COUNT(*) FROM x, {q}",
    "(SELECT queue FROM {s}) UNION (SELECT {v})",
    "EXPLAIN SELECT * FROM {s}",
    "SHOW COLUMNS FROM {s}",
    "SELECT a.*, queuegate.in_flight.id FROM queuegate.subscriptions AS a, queuegate.in_flight, {q} LIMIT {v}",
    "DESCRIBE queuegate.queues",
    "SHOW FULL TABLES FROM queuegate LIKE {v}",
    "SHOW PROCESSLIST",
    "SHOW FULL PROCESSLIST",
    "SHOW TABLES",
    "SHOW CREATE TABLE {q}",
    "SHOW WARNINGS",
    "SHOW COLUMNS FROM {q}",
    "DESCRIBE {q}",
    "EXPLAIN SELECT * FROM {q}",
    "EXPLAIN DELIVERY FOR {q}",
    "EXPLAIN DELIVERY FOR {q} WHERE {w}",
    "EXPLAIN DELIVERY FOR {q} WHERE id IN (1, 2, {v}) LIMIT 3",
    "ANALYZE UPDATE {q} SET payload = {v}",
    "BEGIN",
    "START TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE SAVEPOINT s",
    "COMMIT AND CHAIN",
    "SET autocommit = {v}",
    "SET @v = {v}",
    "SET NAMES utf8mb4",
    "SET NAMES latin1",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET sql_mode = ''",
    "USE main",
    "USE {q}",
    "KILL 4294967295",
    "KILL QUERY 4000000000",
    "KILL {v}",
    "XA START 'x'",
    "PREPARE p FROM 'SELECT {v}'",
    "EXECUTE p",
    "DEALLOCATE PREPARE p",
    "LOCK TABLES {q} WRITE",
    "UNLOCK TABLES",
    "LOAD DATA LOCAL INFILE 'f' INTO TABLE {q}",
    "DO {v}",
    "HELP 'x'",
    "SELECT @@character_set_results",
    "FLUSH TABLES",
    "CREATE PROCEDURE p() BEGIN SELECT 1; ACK {q} 1; END",
    "BEGIN NOT ATOMIC ACK {q} 1; END",
    "HANDLER {q} OPEN",
    "",
)

_WORDS = (
    ("{o}", _OPTIONS),
    ("{s}", _SYSTEM),
    ("{q}", QUEUES),
    ("{w}", _CONDITIONS),
    ("{c}", _COLUMNS),
    ("{d}", _DURATIONS),
    ("{v}", _LITERALS),
)
"""What stands for what; words may have marks of those below them."""

PIECES = (
    ';', "'", '"', '`', '(', ')', '/*', '*/', '/*!', '-- ', '#', '\\', '\x00', 'STREAM', 'FROM', 'ACK', '?',
    ',', '.', 'QUEUE', 'WHERE', 'LIMIT', 'NOWAIT', 'WAIT', '=', '*', 'ÿ', 'ü', '😀', '@@', '@', '0', '-',
    'vitess_message', 'SET', 'ON', 'SELECT', 'state', '--', '{', '}', '\n',
)  # fmt: skip


def statement(random: Random) -> str:
    """One statement that may well be right."""
    text = fuzz_queue_sql.statement(random) if random.random() < OF_THE_GRAMMAR else random.choice(_TEMPLATES)
    for mark, words in _WORDS:
        while mark in text:
            text = text.replace(mark, random.choice(words), 1)
    if random.random() < 0.2:
        text = "".join(random.choice(SPACES) if c == " " else c for c in text)
    if random.random() < 0.15:
        text = "".join(random.choice((c.lower(), c.upper())) for c in text)
    return text


def mutated(random: Random, text: str) -> str:
    """The statement with a few pieces put in, taken out, doubled or moved."""
    for _ in range(random.randint(1, 4)):
        at, to = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
        match random.randrange(6):
            case 0:
                text = text[:at] + random.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[min(to, at + 8) :]
            case 2:
                text = text[:at] + text[at:to] + text[at:]
            case 3:
                text = text[:at] + text[to:] + text[at:to]
            case 4:
                text = text[:at]
            case _:
                words = text.split(" ")
                random.shuffle(words)
                text = " ".join(words)
        text = text[:4000]
    return text


def texts(random: Random, odd: float) -> str:
    """What a client might send as one text: some statements, out of shape with that chance."""
    count = 1 if random.random() < 0.7 else random.randint(2, 4)
    text = random.choice((";", "; ", ";;", ";\n-- x\n")).join(statement(random) for _ in range(count))
    return mutated(random, text) if random.random() < odd else text


CODECS = {
    'latin1': 'cp1252', 'gbk': 'gbk', 'sjis': 'shift_jis', 'cp932': 'cp932', 'big5': 'big5', 'euckr': 'euc_kr',
    'ujis': 'euc_jp', 'gb2312': 'gb2312', 'gb18030': 'gb18030', 'cp1251': 'cp1251', 'koi8r': 'koi8-r',
    'utf8mb3': 'utf-8', 'ascii': 'ascii', 'binary': 'utf-8', 'tis620': 'tis-620', 'greek': 'iso8859-7',
}  # fmt: skip
"""Character sets that a client may speak, and Python's names for them."""


def encoded(random: Random, odd: float = 0.4) -> bytes:
    """The same as bytes, in the charset that most clients speak, or another one, announced or not."""
    text = texts(random, odd)
    chance = random.random()
    if chance < 0.9:
        return text.encode("utf-8", "replace")
    if chance < 0.94:
        return text.encode(random.choice(("latin-1", "utf-16-le", "gbk", "shift_jis")), "replace")
    charset = random.choice(tuple(CODECS))
    return b"SET NAMES %b; " % charset.encode() + text.encode(CODECS[charset], "replace")
