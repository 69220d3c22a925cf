"""SQL for the fuzzer: statements about queues as people write them, as nobody would, and with pieces out of place.

Everything comes out of the `random.Random` that is given, so a seed is a statement.
"""

from __future__ import annotations

from random import Random

QUEUES = (
    'fq', 'fq', 'main.fq', '`fq`', '`main`.`fq`', 'FQ', 'fq2', 'nowhere', 'ft', 'main . fq', '/* c */fq',
    'größe',
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
)  # fmt: skip

_TEMPLATES = (
    "ACK {q} {v}",
    "ACK {q} {v}, {v}, {v}",
    "ACK {q} WHERE {w}",
    "NACK {q} {v}",
    "NACK {q} {v} DELAY {v} REASON {v}",
    "REJECT {q} {v}",
    "RELEASE {q} {v}",
    "RENEW {q} {v} FOR {v}",
    "REDRIVE {q}",
    "RETRY {q} NOW",
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
    "SELECT {c} FROM STREAM {q} LIMIT {v} NOWAIT",
    "SELECT {c}, {c} FROM STREAM {q} LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM {q} LIMIT {v} WAIT 1",
    "SELECT * FROM STREAM {q}",
    "STREAM {c} FROM {q}",
    "SELECT {c} FROM STREAM {q} WHERE {w} LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM {q} WITH (prefetch = {v}) NOWAIT",
    "SELECT * FROM STREAM {q} NOWAIT",
    "SELECT {c} FROM {q} WHERE {w}",
    "SELECT {v}, {v} AS a",
    "SELECT COUNT(*) FROM {q}",
    "WITH x AS (SELECT {v}) SELECT * FROM x",
    "(SELECT {v}) UNION (SELECT {v})",
    "TABLE {q}",
    "VALUES ROW({v})",
    "SELECT queue_ack('{q}', {v})",
    "CALL queue_ack('{q}', {v})",
    "CALL p({v})",
    "CREATE QUEUE {q} (payload TEXT)",
    "CREATE QUEUE IF NOT EXISTS {q} (payload VARCHAR(10), PRIMARY KEY (id), ) WITH (ack_wait = {v})",
    "CREATE QUEUE {q} (id VARCHAR(9) PRIMARY KEY, b BLOB) WITH (ack_wait = '2s', batch_size = {v})",
    "DROP QUEUE {q}",
    "DROP QUEUE IF EXISTS {q}",
    "TRUNCATE QUEUE {q}",
    "ALTER QUEUE {q} PAUSE",
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
    "SHOW SUBSCRIPTIONS",
    "SELECT queue, ready FROM queuegate.queues WHERE {w}",
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

PIECES = (
    ';', "'", '"', '`', '(', ')', '/*', '*/', '/*!', '-- ', '#', '\\', '\x00', 'STREAM', 'FROM', 'ACK', '?',
    ',', '.', 'QUEUE', 'WHERE', 'LIMIT', 'NOWAIT', 'WAIT', '=', '*', 'ÿ', 'ü', '😀', '@@', '@', '0', '-',
    'vitess_message', 'SET', 'ON', 'SELECT', 'state', '--', '{', '}', '\n',
)  # fmt: skip


def statement(random: Random) -> str:
    """One statement that may well be right."""
    text = random.choice(_TEMPLATES)
    for mark, words in (("{q}", QUEUES), ("{w}", _CONDITIONS), ("{c}", _COLUMNS), ("{v}", _LITERALS)):
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


def texts(random: Random) -> str:
    """What a client might send as one text: some statements, perhaps out of shape."""
    count = 1 if random.random() < 0.7 else random.randint(2, 4)
    text = random.choice((";", "; ", ";;", ";\n-- x\n")).join(statement(random) for _ in range(count))
    return mutated(random, text) if random.random() < 0.4 else text


def encoded(random: Random) -> bytes:
    """The same as bytes, in the charset that most clients speak, or another."""
    codec = "utf-8" if random.random() < 0.9 else random.choice(("latin-1", "utf-16-le", "gbk"))
    return texts(random).encode(codec, "replace")
