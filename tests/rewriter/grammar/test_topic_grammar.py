"""The parts of the grammar that only topics have: GROUP in a statement on messages, and from where a reader begins."""

from __future__ import annotations

from random import Random

import pytest

from engine.model.errors import EngineError, InvalidOption
from engine.model.queue import Start
from rewriter.errors import RewriteError, SqlSyntaxError, UnsupportedSql
from rewriter.grammar.beginning import read_beginning, take_beginning
from rewriter.grammar.parse import parse
from rewriter.grammar.statements import (
    Ack,
    AlterGroup,
    Beginning,
    CreateGroup,
    ExplainMessages,
    RedriveQueue,
    Retry,
    SeekGroup,
    SelectStream,
    Settle,
    Unbound,
)
from rewriter.grammar.topics import cut_group
from rewriter.text.tokens import Name, TokenCursor


def cut(sql: str) -> tuple[str | None, str]:
    """The group, and the tokens that are left."""
    cursor = TokenCursor(sql)
    group = cut_group(cursor)
    assert cursor.position == 0
    return group, " ".join(token.text for token in cursor.tokens)


# --- GROUP


@pytest.mark.parametrize(
    ("sql", "group", "left"),
    [
        ("ACK t 1, 2 GROUP g", "g", "ACK t 1 , 2"),
        ("ACK t GROUP g 1", "g", "ACK t 1"),
        ("ack t (1) group `a``b`;", "a`b", "ack t ( 1 ) ;"),
        ("NACK t 1 DELAY 3 GROUP g REASON 'x'", "g", "NACK t 1 DELAY 3 REASON 'x'"),
        ("ACK t WHERE (a = 1) GROUP g", "g", "ACK t WHERE ( a = 1 )"),
        ("RETRY t GROUP now NOW", "now", "RETRY t NOW"),
        ("ACK t 1/* GROUP no */GROUP-- x\ng", "g", "ACK t 1"),
        ("ACK t 1 GROUP a GROUP b", "a", "ACK t 1 GROUP b"),
    ],
)
def test_a_group_is_taken_out_wherever_it_stands(sql: str, group: str, left: str) -> None:
    assert cut(sql) == (group, left)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "ACK",
        "ACK t 1",
        "GROUP g",
        "ACK t 1 GROUP",
        "ACK t 1 GROUP 'g'",
        "ACK t 1 GROUP 7",
        "ACK t 1 GROUP ?",
        "ACK t WHERE id = 1 GROUP BY id",
        "ACK t WHERE id IN (SELECT id FROM o GROUP g)",
        "ACK t WHERE a = 'GROUP g'",
        "ACK t WHERE `GROUP` = 1",
        "ACK t (1, 2 GROUP g",
    ],
)
def test_what_is_no_group_is_left_where_it_is(sql: str) -> None:
    assert cut(sql) == (None, " ".join(token.text for token in TokenCursor(sql).tokens))


PLAIN = (
    "ACK t 1, '2', ?",
    "ACK t (1, 2)",
    "ACK t WHERE a = 1 AND (b = 2)",
    "NACK t 1, 2 DELAY '30s' REASON 'why'",
    "NACK t WHERE a = 1 DELAY 5",
    "REJECT t 7 REASON 'GROUP h'",
    "RELEASE t 1, 2",
    "RENEW t 1 FOR '5m'",
    "RETRY t NOW",
    "RETRY t NOW WHERE a = 1",
    "REDRIVE t",
    "REDRIVE t WHERE a = 1 LIMIT 5",
    "EXPLAIN DELIVERY FOR t",
    "EXPLAIN DELIVERY FOR t WHERE id IN (1, 2) LIMIT 3",
)
_CLAUSES = ("WHERE", "DELAY", "REASON", "FOR", "NOW", "LIMIT")


@pytest.mark.parametrize("sql", PLAIN)
def test_every_statement_on_messages_may_say_its_group(sql: str) -> None:
    """After the topic, before each clause, and at the end; all else is read as without it."""
    plain = parse(sql)
    assert isinstance(plain, Ack | Settle | Retry | RedriveQueue | ExplainMessages)
    assert plain.name == Name(None, "t")
    cursor = TokenCursor(sql)
    topic = next(place for place, token in enumerate(cursor.tokens) if token.text == "t")
    after = {topic + 1, len(cursor.tokens)}
    after |= {place for place, token in enumerate(cursor.tokens) if token.word in _CLAUSES and place > topic}
    for place in after:
        pieces = [token.text for token in cursor.tokens]
        grouped = parse(" ".join([*pieces[:place], "GROUP `the group`", *pieces[place:]]))
        assert type(grouped) is type(plain)
        assert grouped.name == Name(None, "t", "the group")  # type: ignore[union-attr]
        told, expected = _fields(grouped), _fields(plain)
        assert told == expected, place


def _fields(statement: object) -> dict[str, object]:
    """All but the name; conditions without their spaces, ids without their places, plain numbers as ids."""
    found: dict[str, object] = {}
    for name in statement.__match_args__:  # type: ignore[attr-defined]
        value = getattr(statement, name)
        if isinstance(value, str):
            value = value.replace(" ", "")
        elif isinstance(value, tuple):
            value = [token.text for token in value]
        found[name] = value
    if numbers := found.pop("numbers", ""):
        found["ids"] = str(numbers).split(",")
    del found["name"]
    return found


def test_a_group_among_bound_values_is_read_when_they_are_known() -> None:
    sql = "NACK t ? GROUP g DELAY ? REASON ?"
    assert parse(sql) == Unbound(sql, 3)


@pytest.mark.parametrize(
    "sql",
    [
        "ACK t 1 GROUP a GROUP b",
        "ACK t 1 GROUP",
        "ACK t WHERE id = 1 GROUP BY id",
        "ACK t WHERE id = 1 GROUP g AND a = 2",
        "NACK t 1 DELAY GROUP g",
        "RENEW t 1 GROUP g",
        "RETRY t GROUP g",
        "REDRIVE t LIMIT GROUP g",
        "RELEASE GROUP g",
    ],
)
def test_a_group_mends_nothing(sql: str) -> None:
    with pytest.raises((RewriteError, EngineError)):
        parse(sql)


def test_savepoints_are_none_of_ours() -> None:
    assert parse("RELEASE SAVEPOINT s") is None


def test_what_is_put_together_of_its_words_is_read_or_refused() -> None:
    words = ("ACK", "NACK", "t", "GROUP", "BY", "g", "1", ",", "(", ")", "WHERE", "id", "=", "`group`", "'GROUP g'",
             "?", "DELAY", "3", "NOW", ";", "RETRY", "REDRIVE", "EXPLAIN")  # fmt: skip
    for seed in range(3000):
        random = Random(seed)
        sql = " ".join(random.choice(words) for _ in range(random.randint(1, 9)))
        try:
            parse(random.choice(("ACK t ", "NACK t ", "RETRY t ", "REDRIVE t ", "EXPLAIN DELIVERY FOR t ", "")) + sql)
        except (RewriteError, EngineError) as error:
            assert error.errno in (1064, 1231, 1235), sql


# --- from where


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("EARLIEST", Beginning(Start.EARLIEST)),
        ("latest", Beginning(Start.LATEST)),
        ("OFFSET 0", Beginning(Start.OFFSET, 0)),
        ("offset 0042", Beginning(Start.OFFSET, 42)),
        ("OFFSET 999999999999999999", Beginning(Start.OFFSET, 999_999_999_999_999_999)),
        ("TIMESTAMP '2026-05-01'", Beginning(Start.TIMESTAMP, moment="2026-05-01")),
        ("timestamp'2026-5-1 1:2'", Beginning(Start.TIMESTAMP, moment="2026-5-1 1:2")),
        ('TIMESTAMP "2026-05-01T12:00:00.5"', Beginning(Start.TIMESTAMP, moment="2026-05-01T12:00:00.5")),
        ("'2026-05-01 12:00:00.123456'", Beginning(Start.TIMESTAMP, moment="2026-05-01 12:00:00.123456")),
    ],
)
def test_beginnings(text: str, beginning: Beginning) -> None:
    cursor = TokenCursor(f"{text} AND MORE")
    assert take_beginning(cursor) == beginning
    assert cursor.word == "AND"


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("", SqlSyntaxError, "a beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP"),
        ("NOW()", SqlSyntaxError, "a beginning is"),
        ("7", SqlSyntaxError, "a beginning is"),
        ("?", UnsupportedSql, "write the value"),
        ("OFFSET", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET ?", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET '7'", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET -1", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET 1.0", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET 1e3", SqlSyntaxError, "OFFSET takes a whole number"),
        ("OFFSET 1000000000000000000", SqlSyntaxError, "OFFSET takes a whole number"),
        ("TIMESTAMP", SqlSyntaxError, "TIMESTAMP takes a quoted date and time"),
        ("TIMESTAMP 20260501", SqlSyntaxError, "TIMESTAMP takes a quoted date and time"),
        ("TIMESTAMP ?", SqlSyntaxError, "TIMESTAMP takes a quoted date and time"),
        ("TIMESTAMP ''", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '12:00'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '26-05-01'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '2026-05-01 12'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '2026-05-01 12:00+02:00'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '2026-05-01\n'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP ' 2026-05-01'", InvalidOption, "is not a date and time"),
        ("'it''s'", InvalidOption, "is not a date and time"),
        ("TIMESTAMP '२०२६-05-01'", InvalidOption, "is not a date and time"),
    ],
)
def test_what_is_no_beginning_is_refused(text: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        take_beginning(TokenCursor(text))


@pytest.mark.parametrize(
    ("value", "beginning"),
    [
        ("earliest", Beginning(Start.EARLIEST)),
        (" Latest ", Beginning(Start.LATEST)),
        ("0", Beginning(Start.OFFSET, 0)),
        (7, Beginning(Start.OFFSET, 7)),
        ("0042", Beginning(Start.OFFSET, 42)),
        ("999999999999999999", Beginning(Start.OFFSET, 999_999_999_999_999_999)),
        ("2026-05-01", Beginning(Start.TIMESTAMP, moment="2026-05-01")),
        (" 2026-5-1T1:02 ", Beginning(Start.TIMESTAMP, moment="2026-5-1T1:02")),
    ],
)
def test_beginnings_as_an_option(value: str | int, beginning: Beginning) -> None:
    assert read_beginning("start", value) == beginning


@pytest.mark.parametrize(
    "value",
    ["", "-1", "+1", "1.0", "1e3", "1000000000000000000", "٣", "²", "offset 3", "yesterday", "2026-05", "12:00"],
)
def test_what_is_no_beginning_as_an_option(value: str) -> None:
    with pytest.raises(InvalidOption, match="start: '"):
        read_beginning("start", value)


# --- where a statement has one


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("CREATE GROUP g ON t", CreateGroup(Name(None, "t"), "g", False, Beginning(Start.LATEST), {})),
        (
            "CREATE GROUP IF NOT EXISTS g ON d.t START AT OFFSET 3 WITH (prefetch = 5)",
            CreateGroup(Name("d", "t"), "g", True, Beginning(Start.OFFSET, 3), {"prefetch": "5"}),
        ),
        ("CREATE GROUP `if` ON `on`", CreateGroup(Name(None, "on"), "if", False, Beginning(Start.LATEST), {})),
        ("ALTER GROUP g ON t SEEK TO EARLIEST;", SeekGroup(Name(None, "t"), "g", Beginning(Start.EARLIEST))),
        ("ALTER GROUP g ON t PAUSE", AlterGroup(Name(None, "t"), "g", {"paused": 1})),
        ("ALTER GROUP g ON t SET (prefetch = DEFAULT)", AlterGroup(Name(None, "t"), "g", {"prefetch": None})),
    ],
)
def test_statements_on_groups(sql: str, statement: object) -> None:
    assert parse(sql) == statement


@pytest.mark.parametrize(
    ("clauses", "since", "until"),
    [
        ("SINCE OFFSET 3", Beginning(Start.OFFSET, 3), None),
        ("UNTIL LATEST", None, Beginning(Start.LATEST)),
        ("UNTIL OFFSET 9 LIMIT 2 SINCE EARLIEST", Beginning(Start.EARLIEST), Beginning(Start.OFFSET, 9)),
        ("WHERE a > 1 SINCE OFFSET 3", Beginning(Start.OFFSET, 3), None),
        ("WHERE since = 1 AND until IN (2) UNTIL OFFSET 3", None, Beginning(Start.OFFSET, 3)),
    ],
)
def test_where_a_replay_begins_and_ends(clauses: str, since: Beginning | None, until: Beginning | None) -> None:
    for sql in (f"SELECT * FROM STREAM t {clauses}", f"STREAM * FROM t {clauses}"):
        statement = parse(sql)
        assert isinstance(statement, SelectStream) and statement.fault is None
        assert (statement.clauses.since, statement.clauses.until) == (since, until)
