"""The cheap look: ordinary statements are let through, nothing that concerns a queue is."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriter_catalog import CATALOG

from engine.model.queue import QueueCatalog, QueueName
from engine.model.topic_options import TopicOptions
from rewriter.plan import NO_EFFECTS, Effects
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner, split_statements
from rewriter.scan.socket_variable import without_socket
from rewriter.text.queue_names import UNKNOWN_DATABASE

SCANNER = StatementScanner(CATALOG)
ALL = frozenset((*CATALOG.queues, *CATALOG.topics))
Q = QueueName("shop", "q")


def kind(sql: bytes, database: str | None = "shop") -> StatementClass:
    return SCANNER.classify(sql, database).kind


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT 1",
        b"SELECT * FROM q WHERE state = 'fired'",
        b"SELECT * FROM stream",
        b"SELECT 'ACK q 1'",
        b"INSERT INTO account (name) VALUES ('q; ACK q 1')",
        b"INSERT INTO account SELECT * FROM q",
        b"UPDATE account SET state = 'q' WHERE id = 1",
        b"DELETE FROM account WHERE id = 1",
        b"REPLACE account SELECT * FROM q",
        b"BEGIN",
        b"START TRANSACTION",
        b"COMMIT",
        b"ROLLBACK TO SAVEPOINT a",
        b"RELEASE SAVEPOINT a",
        b"SET autocommit = 0",
        b"SHOW TABLES",
        b"SHOW CREATE TABLE q",
        b"EXPLAIN delivery",
        b"TRUNCATE queue",
        b"DROP TABLE account",
        b"ALTER TABLE account ADD COLUMN queue INT",
        b"CREATE TABLE queue (a INT)",
        b"CREATE PROCEDURE p() BEGIN INSERT INTO q VALUES (1); END",
        b"BEGIN; UPDATE account SET a = 1; COMMIT",
        b"SELECT 1; SELECT 2",
        b"LOAD DATA INFILE 'q' INTO TABLE account",
        b"HANDLER q OPEN",
        b"XA PREPARE 'a'",
        b"SET autocommit = 1, @x = 'y'",
        b"PREPARE p FROM 'SELECT 1'",
        b"EXECUTE IMMEDIATE 'SELECT 1'",
        b"",
        b"garbage ( '",
    ],
)
def test_ordinary(sql: bytes) -> None:
    assert SCANNER.classify(sql, "shop") == Classification(StatementClass.NONE)


@pytest.mark.parametrize("sql", [b"XA COMMIT 'a'", b"XA COMMIT x'00',x'01',7 ONE PHASE", b"xa rollback 'a'"])
def test_the_end_of_an_xa_transaction_may_be_anybodys(sql: bytes) -> None:
    queues = ALL
    assert SCANNER.classify(sql, "shop") == Classification(
        StatementClass.TOUCHES, Effects(touched=queues, uncertain=queues)
    )
    assert StatementScanner(QueueCatalog()).classify(sql, "shop") == Classification(StatementClass.NONE)


@pytest.mark.parametrize(
    "sql",
    [
        b"USE shop",
        b"SET NAMES latin1",
        b"set @x = 1, names utf8mb4",
        b"SET CHARACTER SET gbk",
        b"SET character_set_client = latin1",
        b"SET SESSION sql_mode = 'ANSI'",
        b"PREPARE p FROM 'USE shop'",
        b"PREPARE p FROM 'SET NAMES latin1'",
        b"PREPARE p FROM @text",
        b"EXECUTE p USING @a",
        b"EXECUTE IMMEDIATE CONCAT('US', 'E x')",
        b"EXECUTE IMMEDIATE @text",
        b"EXECUTE IMMEDIATE 'US' 'E x'",
        b"EXECUTE IMMEDIATE 'U\\SE x'",
        b"PREPARE p FROM 'CALL x()'",
        b"PREPARE p FROM CONCAT('FROM', 'x')",
        b"PREPARE p FROM 'CREATE TEMPORARY TABLE q (a INT)'",
        b"CREATE TEMPORARY TABLE q (a INT)",
        b"create or replace /* x */ temporary table shop.`q` like x",
        b"BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'USE x' END",
        b"IF a THEN b END IF",
        b"SET STATEMENT max_statement_time = 1 FOR CASE 1 WHEN 1 THEN b END CASE",
        b"SELECT 1; WHILE a DO b END WHILE",
        b"CALL report()",
        b"SET ROLE NONE",
        b"SELECT 1; SET NAMES latin1",
    ],
)
def test_what_may_change_how_statements_to_come_are_read(sql: bytes) -> None:
    assert kind(sql) is (StatementClass.PLAN if b";" in sql else StatementClass.USE)


LONG = b"'" + b"x" * 2000 + b"'"


@pytest.mark.parametrize(
    "sql",
    [
        b"INSERT INTO jobs (id, payload) VALUES (9223372036854775807, %s)",
        b"INSERT INTO jobs (payload, `id`) VALUES (%s, 9223372036854775807)",
        b"INSERT INTO jobs (payload, ID) values (%s, 9223372036854775807)",
        b"INSERT INTO jobs VALUES (9223372036854775807, %s)",
        b"INSERT INTO jobs VALUE (9223372036854775807, %s)",
        b"INSERT INTO jobs SET id = 9223372036854775807, payload = %s",
        b"INSERT INTO jobs SELECT 9223372036854775807, %s",
        b"INSERT INTO jobs (SELECT 9223372036854775807, %s)",
        b"INSERT INTO jobs (payload /* ) VALUES */, id) VALUES (%s, 9223372036854775807)",
        b"INSERT INTO jobs (payload -- ) VALUES\n, id) VALUES (%s, 9223372036854775807)",
        b"INSERT INTO jobs (payload) SELECT %s UNION SELECT 9223372036854775807",
        b"INSERT INTO jobs (payload) VALUES (%s) ON DUPLICATE KEY UPDATE id = 9223372036854775807",
        b"INSERT INTO jobs (payload, state) VALUES (%s, 'fired')",
        b"INSERT INTO jobs (time_next, payload) VALUES ('timestampdiff(x', %s)",
    ],
)
def test_a_long_insert_that_may_fill_a_column_of_the_queues_own_is_for_the_planner(sql: bytes) -> None:
    assert kind(sql % LONG) is StatementClass.PLAN


@pytest.mark.parametrize(
    "sql",
    [
        b"INSERT INTO jobs (payload) VALUES (%s)",
        b"INSERT INTO jobs (`payload`, n$1) VALUES (%s, 9223372036854775807)",
        b"INSERT INTO jobs ( payload , other )values (%s, 'time_next state id timestampdiff(')",
    ],
)
def test_a_long_insert_into_other_columns_is_let_through(sql: bytes) -> None:
    assert kind(sql % LONG) is StatementClass.TOUCHES


@pytest.mark.parametrize(
    ("sql", "settled"),
    [
        (b"DELETE FROM shop.q WHERE id = 1", True),
        (b"DELETE LOW_PRIORITY QUICK FROM shop.q WHERE id = 1", True),
        (b"DELETE IGNORE FROM shop.q WHERE id = 1", False),  # a foreign key may keep the row
        (b"delete quick /* x */ ignore from shop.q where id = 1", False),
        (b"/*!999999 DELETE FROM shop.q WHERE id = 1 # */ DELETE FROM t WHERE id = 1", False),
        (b"/*M!999999 DELETE FROM shop.q WHERE id = 1 # */ DELETE FROM t WHERE id = 1", False),
        (b"SET STATEMENT a = 1 /* FOR x */ FOR DELETE FROM shop.q WHERE id = 1", True),
        (b"SET STATEMENT a = 1 /* FOR DELETE FROM shop.q WHERE id = 1 # */ FOR DELETE FROM t", False),
        (b"SET STATEMENT a = 1 # FOR DELETE FROM shop.q WHERE id = 1 -- \n FOR DELETE FROM t", False),
        (b"SET STATEMENT a = '\\' FOR DELETE FROM t -- ' FOR DELETE FROM shop.q WHERE id = 1", False),
    ],
)
def test_a_message_is_not_taken_for_ended_where_a_server_may_read_otherwise(sql: bytes, settled: bool) -> None:
    assert (SCANNER.classify(sql, "other").effects.settled == ((Q, (1,)),)) == settled


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT 1 --\x7f; DELETE FROM shop.q WHERE id = 1",
        b"SELECT 1 --\xa0; DELETE FROM shop.q WHERE id = 1",
        b'SELECT 1 AS "a\\", 2 AS "; DELETE FROM shop.q WHERE id = 1 #"',
        b"SELECT '\xbf\\' , '; DELETE FROM shop.q WHERE id = 1 #'",
        b"CREATE DATABASE x --\x7f; DELETE FROM shop.q WHERE id = 1",
    ],
)
def test_a_text_of_several_statements_may_be_cut_otherwise_by_the_server(sql: bytes) -> None:
    effects = SCANNER.classify(sql, "other").effects
    assert (effects.settled, effects.uncertain) == ((), {Q}) and effects.several


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT /*! '*/ ; DELETE FROM shop.q WHERE id = 1 # */' */",
        b"SELECT 1 /*!999999 /* */ ; DELETE FROM shop.q WHERE id = 1 # */",
        b"SELECT /*! '*/ ; SELECT ' ; USE marys */",
        b"SELECT /*! '*/' ; USE marys */",
    ],
)
def test_a_text_of_several_statements_with_executable_comments_is_run_one_by_one(sql: bytes) -> None:
    assert kind(sql) in (StatementClass.PLAN, StatementClass.USE)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (b"/*!999999 SELECT 1 # */ USE marys", StatementClass.USE),
        (b" -- c\n/*M!999999 SELECT 1 # */ USE marys", StatementClass.USE),
        (b"CREATE /*!999999 VIEW v AS SELECT 1 # */ TEMPORARY TABLE q (id INT)", StatementClass.USE),
        (b"CREATE OR REPLACE /*!999999 VIEW v AS SELECT 1 # */ TEMPORARY TABLE q (id INT)", StatementClass.USE),
        (b"SET STATEMENT a = 1 /*!999999 FOR SELECT 1 # */ FOR USE marys", StatementClass.USE),
        (b"SET /*!999999 @a = 1 # */ STATEMENT a = 1 FOR USE marys", StatementClass.USE),
        (b"BEGIN /*!999999 WORK # */ NOT ATOMIC USE marys; END", StatementClass.USE),
        (b"PREPARE s FROM /*!999999 'SELECT 1' # */ CONCAT('U', 'SE marys')", StatementClass.USE),
        (b"/*!40101 SET @old = @@time_zone */;", StatementClass.NONE),
        (b"SET @@GLOBAL.gtid_purged = /*!80000 '+'*/ 'x:1-5'", StatementClass.NONE),
        (b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `x`", StatementClass.TOUCHES),
        (b"SELECT /*!40001 SQL_NO_CACHE */ * FROM t", StatementClass.NONE),
        (b"SET sql_log_bin = 0, max_statement_time = 30", StatementClass.NONE),
        (b"SET @title = 'Bank statement'", StatementClass.NONE),
        (b"SET /* x */ STATEMENT a = 1 FOR SET @b = 1", StatementClass.USE),
        (b"\xa0USE marys", StatementClass.USE),  # a space in latin1
        (b"SET\xa0STATEMENT a = 1 FOR USE marys", StatementClass.USE),
        (b"SET STATEMENT\xa0a = 1 FOR USE marys", StatementClass.USE),
        (b"SET /* x */\xa0STATEMENT a = 1 FOR USE marys", StatementClass.USE),
        (b"CREATE\xa0TEMPORARY TABLE q (id INT)", StatementClass.USE),
        (b"CREATE OR REPLACE\xa0TEMPORARY TABLE q (id INT)", StatementClass.USE),
        (b"BEGIN\xa0NOT ATOMIC USE marys; END", StatementClass.USE),
        (b"BEGIN \xa0NOT ATOMIC USE marys; END", StatementClass.USE),
        (b"lab\xa0: BEGIN NOT ATOMIC USE marys; END", StatementClass.USE),
        (b"SELECT 1;\xa0USE marys", StatementClass.PLAN),
        (b"SELECT '\xbf\\'; USE marys; #'", StatementClass.USE),  # in gbk
        (b'INSERT INTO t VALUES ("a\\"; USE marys; #")', StatementClass.USE),  # with ANSI_QUOTES
        (b"CREATE VIEW v AS SELECT '\xe9'", StatementClass.NONE),
        (b"CREATE TEMPORARY TABLE report (a INT)", StatementClass.USE),  # it may be renamed, or be a queue's name later
        (b"CREATE OR REPLACE TEMPORARY TABLE report (a INT)", StatementClass.USE),
    ],
)
def test_what_a_server_may_read_as_a_statement_that_changes_how_others_are_read(
    sql: bytes, expected: StatementClass
) -> None:
    assert kind(sql) is expected


@pytest.mark.parametrize("escapes", [True, False])
def test_what_looks_like_an_executable_comment_in_a_string(escapes: bool) -> None:
    def counted(body: bytes) -> bool:
        effects = SCANNER.classify(
            b"INSERT INTO q (n) VALUES (" + body + b")", "shop", backslash_escapes=escapes
        ).effects
        return effects.tally is not None

    for body in (b"1", b"'/*! jQuery v3 */'", b'"it\'s /*M! x"', b"1 /* /*! */", b"1 # /*!\n"):
        assert counted(body), body
    assert not counted(b"'a' /*! , 2 */")
    assert counted(b"'it\\'s /*! x */'") is escapes


def test_names_that_were_seen_mean_the_same_queue_again() -> None:
    scanner = StatementScanner(CATALOG)
    for _ in range(2):
        for sql, database, effects in (
            (b"INSERT INTO q (n) VALUES (1)", "shop", frozenset((Q,))),
            (b"INSERT INTO q (n) VALUES (1)", "other", frozenset()),
            (b"INSERT INTO shop.q (n) VALUES (1)", "other", frozenset((Q,))),
            (b"INSERT INTO `shop`.`q` (n) VALUES (1)", None, frozenset((Q,))),
            (b"INSERT INTO q2 (n) VALUES (1)", "other", frozenset((QueueName("other", "q2"),))),
        ):
            assert scanner.classify(sql, database).effects.touched == effects


def test_a_queues_name_without_a_known_default_database_is_for_the_planner() -> None:
    assert kind(b"INSERT INTO q VALUES (1)", UNKNOWN_DATABASE) is StatementClass.PLAN
    assert kind(b"INSERT INTO shop.q VALUES (1)", UNKNOWN_DATABASE) is StatementClass.TOUCHES
    assert kind(b"INSERT INTO account VALUES (1)", UNKNOWN_DATABASE) is StatementClass.NONE


@pytest.mark.parametrize(
    "sql",
    [
        b"ACK q 1",
        b"nack q 1",
        b"REJECT q 1",
        b"RELEASE q 1",
        b"RENEW q 1 FOR 5",
        b"REDRIVE q_dead",
        b"RETRY q NOW",
        b"STREAM * FROM q",
        b"KILL 5",
        b"CREATE QUEUE a (b INT)",
        b"ALTER QUEUE q PAUSE",
        b"DROP QUEUE q",
        b"TRUNCATE QUEUE q",
        b"SHOW QUEUES",
        b"SHOW QUEUE STATUS",
        b"SHOW SUBSCRIPTIONS",
        b"SHOW CREATE QUEUE q",
        b"SHOW PROCESSLIST",
        b"SHOW FULL PROCESSLIST",
        b"EXPLAIN DELIVERY FOR q WHERE id = 1",
        b"SELECT * FROM STREAM q",
        b"SELECT * FROM/* */STREAM`q`",
        b"SELECT queue_ack('q', 1)",
        b"CALL queue_ack('q', 1)",
        b"CALL shop.`queue_ack`('q', 1)",
        b"(SELECT * FROM STREAM q)",
        b"EXPLAIN SELECT * FROM STREAM q",
        b"UPDATE q SET state = 'acked'",
        b"UPDATE q SET time_acked = 5, time_next = NULL WHERE id = 5",
        b"SELECT 1; ACK q 1",
        b"SELECT 1;ACK q 1",
        b"SELECT ';'; /* x */ ACK q 1",
        b"SELECT 1; USE other; INSERT INTO q VALUES (1)",
        b"BEGIN; INSERT INTO q (a) VALUES (1); COMMIT",
        b"DELETE FROM q WHERE id = 1; ROLLBACK",
    ],
)
def test_for_the_planner(sql: bytes) -> None:
    assert kind(sql) is StatementClass.PLAN


def test_use() -> None:
    assert kind(b"USE other") is StatementClass.USE


@pytest.mark.parametrize(
    ("sql", "effects"),
    [
        (b"INSERT INTO q (a) VALUES (1)", Effects(touched=frozenset((Q,)))),
        (b"UPDATE q SET time_next = 0", Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)))),
        (b"DELETE FROM q WHERE id = 5", Effects(settled=((Q, (5,)),))),
        (b"DELETE FROM q WHERE payload = 'a'", Effects(uncertain=frozenset((Q,)))),
        (b"DROP TEMPORARY TABLE q", Effects(catalog=True)),
        (b"DROP DATABASE elsewhere", Effects(catalog=True)),
        (b"CREATE TABLE copy LIKE q", Effects(catalog=True)),
        (b"CREATE TABLE m (a INT) COMMENT='vitess_message'", Effects(catalog=True)),
        (b"ANALYZE FORMAT=JSON UPDATE q SET a = 1", Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)))),
        (
            b"INSERT INTO q (a) VALUES (1); DELETE FROM q WHERE id = 5; SELECT 1",
            Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)), several=True),
        ),
    ],
)
def test_effects_of_what_passes(sql: bytes, effects: Effects) -> None:
    assert SCANNER.classify(sql, "shop") == Classification(StatementClass.TOUCHES, effects)


@pytest.mark.parametrize(
    "sql", [b"DROP TABLE a, q", b"TRUNCATE q", b"SET STATEMENT a = 'FOR' FOR DROP TABLES IF EXISTS q"]
)
def test_what_would_take_all_messages_along_has_to_be_allowed(sql: bytes) -> None:
    gone = frozenset((Q,))
    assert SCANNER.classify(sql, "shop") == Classification(
        StatementClass.PLAN, Effects(uncertain=gone, removes=gone, catalog=True)
    )


@pytest.mark.parametrize(
    ("sql", "counter"),
    [
        (b"INSERT INTO q (a) VALUES (1)", "enqueued"),
        (b"INSERT IGNORE INTO q SELECT * FROM t", "enqueued"),
        (b"LOAD DATA INFILE 'f' INTO TABLE q", "enqueued"),
        (b"DELETE FROM q WHERE id = 5", "deleted"),
        # their affected rows are not rows added
        (b"LOAD DATA INFILE 'f' REPLACE INTO TABLE q", None),
        (b"REPLACE INTO q (a) VALUES (1)", None),
        (b"INSERT INTO q (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2", None),
        (b"UPDATE q SET time_next = 0", None),
        # of several statements only the last one's are known
        (b"INSERT INTO q (a) VALUES (1); INSERT INTO q (a) VALUES (2)", None),
    ],
)
def test_what_affected_rows_are_counted_as(sql: bytes, counter: str | None) -> None:
    assert SCANNER.classify(sql, "shop").effects.tally == (None if counter is None else (Q, counter))


def test_names_are_resolved_by_database() -> None:
    assert kind(b"INSERT INTO q2 VALUES (1)") is StatementClass.NONE
    assert kind(b"INSERT INTO q2 VALUES (1)", "other") is StatementClass.TOUCHES
    assert kind(b"INSERT INTO other.q2 VALUES (1)", None) is StatementClass.TOUCHES
    assert kind(b"INSERT INTO q VALUES (1)", None) is StatementClass.NONE


def test_a_name_in_an_unknown_charset_goes_to_the_planner() -> None:
    assert kind("INSERT INTO größe VALUES (1)".encode()) is StatementClass.TOUCHES
    assert kind("INSERT INTO größe VALUES (1)".encode("latin1")) is StatementClass.PLAN
    assert kind("INSERT INTO konten VALUES ('größe')".encode("latin1")) is StatementClass.NONE
    only_ascii = StatementScanner(QueueCatalog(1, {Q: CATALOG.queues[Q]}))
    assert only_ascii.classify("INSERT INTO größe VALUES (1)".encode("latin1"), "shop").kind is StatementClass.NONE


def test_a_long_write_to_several_tables_is_taken_to_name_every_queue() -> None:
    classification = SCANNER.classify(b"UPDATE a, b SET a.x = '" + b"x" * 70_000 + b"'", "shop")
    assert classification.effects.uncertain == ALL


# --- properties: whatever the spelling, a queue statement is noticed

SPACES = st.sampled_from(
    [b" ", b"\n", b"\t ", b" /* c */ ", b"/**/", b" -- c\n", b" # c ' \n", b"\r\n", b" /*!50000 */ "]
)
QUEUES = st.sampled_from([b"q", b"`q`", b"shop.q", b"`shop`.`q`", b"shop . `q`", b"other.q2", b"`my-queue`", b"`q`"])
STATEMENTS = st.sampled_from(
    [
        "INSERT INTO {q} ( a ) VALUES ( 'x' )",
        "INSERT IGNORE {q} SET a = 1",
        "REPLACE INTO {q} VALUES ( 1 )",
        "UPDATE {q} SET a = 1 WHERE id = 2",
        "UPDATE LOW_PRIORITY {q} AS x SET state = 'acked'",
        "UPDATE account a JOIN {q} b ON 1 SET b.time_next = 0",
        "DELETE FROM {q} WHERE id = 1",
        "DELETE FROM {q}",
        "DELETE b FROM account a , {q} b",
        "LOAD DATA INFILE 'x' INTO TABLE {q}",
        "TRUNCATE TABLE {q}",
        "DROP TABLE {q}",
        "ALTER TABLE {q} ADD b INT",
        "RENAME TABLE {q} TO z",
        "ACK {q} 1",
        "NACK {q} 1",
        "STREAM * FROM {q}",
        "SELECT * FROM STREAM {q}",
        "SELECT id FROM STREAM {q} LIMIT 5 NOWAIT",
        "DROP QUEUE {q}",
        "CREATE QUEUE IF NOT EXISTS {q} ( a INT )",
        "TRUNCATE QUEUE {q}",
        "SHOW CREATE QUEUE {q}",
        "RELEASE {q} 1",
        "EXPLAIN DELIVERY FOR {q} WHERE id = 1",
        "SHOW QUEUES",
        "KILL QUERY 5",
        "USE shop",
    ]
)


@st.composite
def spelled(draw: st.DrawFn) -> bytes:
    queue = draw(QUEUES)
    words = [
        queue if word == "{q}" else draw(st.sampled_from([word, word.lower(), word.swapcase()])).encode()
        for word in draw(STATEMENTS).split(" ")
    ]
    text = draw(st.sampled_from([b"", b" ", b"/* c */", b"-- c\n"])) + words[0]
    for word in words[1:]:
        text += draw(SPACES) + word
    return text + draw(st.sampled_from([b"", b";", b" ; ", b" -- end"]))


@given(spelled())
def test_no_queue_statement_is_missed(sql: bytes) -> None:
    assert kind(sql) is not StatementClass.NONE, sql


@given(spelled(), st.sampled_from([b"SELECT 1", b"SELECT ';\\'', \"x;\"", b"INSERT INTO account VALUES (';')"]))
def test_none_is_missed_among_others(sql: bytes, other: bytes) -> None:
    assert kind(other + b";" + sql) is not StatementClass.NONE
    assert kind(sql + b"\n;" + other) is not StatementClass.NONE


@given(st.text(max_size=40), st.sampled_from(["utf-8", "latin1", "utf-16"]))
def test_any_text_gets_a_verdict(text: str, charset: str) -> None:
    classification = SCANNER.classify(text.encode(charset, "replace"), "shop")
    assert classification.kind in StatementClass


@given(st.binary(max_size=40))
def test_literals_of_other_tables_do_not_matter(data: bytes) -> None:
    literal = data.replace(b"\\", b"\\\\").replace(b"'", b"''")
    assert SCANNER.classify(b"INSERT INTO account (a) VALUES ('" + literal + b"')", "shop").effects == NO_EFFECTS


@pytest.mark.parametrize(
    "text",
    [
        b"INSERT INTO account VALUES " + b",".join(b"('; ACK q 1 %d')" % i for i in range(500_000)),
        b"INSERT INTO q (a) VALUES " + b",".join(b"('; nothing %d')" % i for i in range(500_000)),
        b"SELECT * " + b"FROM/* " * 200_000,
        b"SELECT " + b"; /*" * 200_000,
        b"LOAD " + b"INTO/*" * 200_000,
        b"UPDATE " + b"a" * 1_000_000,
        b"DELETE FROM q WHERE id IN (" + b"1," * 300_000 + b"x)",
        b"DELETE FROM q WHERE " + b"`" * 1_000_000,
        b"UPDATE a, b SET " + b"q " * 500_000,
    ],
    ids=lambda text: text[:24],
)
def test_large_texts_are_cheap(text: bytes) -> None:
    start = time.process_time()
    SCANNER.classify(text, "shop")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "sql",
    [
        b"SET STATEMENT sql_mode = 'ANSI' FOR SELECT 1",
        b"SET STATEMENT sql_mode='' FOR UPDATE ordinary SET i = 1",
        b"SET STATEMENT sql_mode='', max_statement_time=5 FOR CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
    ],
)
def test_settings_of_one_statement_end_with_it(sql: bytes) -> None:
    assert SCANNER.classify(sql, "shop") == Classification(StatementClass.NONE)
    assert split_statements(sql) == [sql]


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT @@socket", "SELECT '' AS `@@socket`"),
        ("select @@wait_timeout,@@SOCKET;", "select @@wait_timeout,'' AS `@@SOCKET`;"),
        ("SELECT @@global.socket AS s, @@port", "SELECT '' AS s, @@port"),
        ("SELECT @@sockets", None),
        ("SELECT '@@socket'", None),
        ("SELECT @@socket FROM t", None),
    ],
)  # fmt: skip
def test_the_socket_of_the_database_is_not_for_clients(sql: str, asked: str | None) -> None:
    assert without_socket(sql) == asked
    assert (SCANNER.classify(sql.encode(), "shop").kind is StatementClass.PLAN) >= (asked is not None)


def test_which_inserts_tell_the_ids_that_they_give() -> None:
    """Of a topic whose history is kept: those that add rows and do nothing else, for the answer has the first id."""
    topics = {name: replace(t, options=TopicOptions(trace_keep_ns=1)) for name, t in CATALOG.topics.items()}
    keeping = StatementScanner(replace(CATALOG, topics=topics))
    plain = [
        b"INSERT INTO orders (user_id) VALUES (1), (2)",
        b"insert into `shop`.`orders`(user_id)values(1)",
        b"INSERT LOW_PRIORITY orders VALUES (1, 2)",
        b"INSERT INTO orders () VALUES ()",
        b"/* IGNORE */ INSERT INTO orders SET user_id = 1, body = 'IGNORE, then SELECT'",
        b"INSERT INTO orders (body) VALUE ((SELECT MAX(body) FROM clicks))",
    ]
    other = [
        b"INSERT IGNORE INTO orders (user_id) VALUES (1)",
        b"INSERT DELAYED INTO orders (user_id) VALUES (1)",
        b"INSERT INTO orders (user_id) SELECT 1",
        b"INSERT INTO orders SELECT * FROM clicks",
        b"INSERT INTO orders TABLE clicks",
        b"INSERT INTO orders (user_id) VALUES (1) ON DUPLICATE KEY UPDATE user_id = 2",
        b"INSERT INTO orders (user_id) VALUES (1) RETURNING id",
        b"REPLACE INTO orders (user_id) VALUES (1)",
        b"LOAD DATA INFILE 'x' INTO TABLE orders",
        b"INSERT INTO orders (id) VALUES (1)",
        b"INSERT INTO q (user_id) VALUES (1)",
        b"INSERT INTO orders (user_id) VALUES (1); INSERT INTO orders (user_id) VALUES (2)",
    ]
    assert [sql for sql in plain if not keeping.classify(sql, "shop").effects.numbered] == []
    assert [sql for sql in other if keeping.classify(sql, "shop").effects.numbered] == []
    assert [sql for sql in plain if SCANNER.classify(sql, "shop").effects.numbered] == []  # where none is kept
