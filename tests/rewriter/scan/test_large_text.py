"""LargeText: texts in pieces end up judged as they would be whole, and stop where they must."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriter_catalog import CATALOG

from engine.model.queue import QueueName
from rewriter.plan import NO_EFFECTS, Effects, TransactionVerb
from rewriter.scan.large_text import HEAD_BYTES, LargeText
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner
from rewriter.text.lexis import is_empty, split_statements

SCANNER = StatementScanner(CATALOG)
Q = QueueName("shop", "q")


class Notebook(StatementScanner):
    """Lets everything pass and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(CATALOG)
        self.asked: list[bytes] = []

    def classify(self, sql: bytes, database: str | None, **options: bool) -> Classification:
        self.asked.append(sql)
        return Classification(StatementClass.NONE)


def large(*, several: bool = True, **options: bool) -> LargeText:
    return LargeText(SCANNER, "shop", several=several, **options)


def fed(text: LargeText, pieces: Iterable[bytes]) -> bytes:
    passed = b"".join(text.feed(piece) for piece in pieces)
    return passed + text.feed(b"", last=True)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, position = [], 0
    for size in sizes:
        pieces.append(data[position : position + size])
        position += size
    return [*pieces, data[position:]]


# Everything that begins, ends or looks like a token, in short supply of anything else.
_SOUP = st.lists(
    st.sampled_from(
        [*rb"""' " ` ; ; \ \' '' -- -|# /* */ /*! * / a SELECT|1 x'""".split(b" "), b" ", b"-- ", b"\n", b"\x00\xff"]
    ),
    max_size=30,
).map(lambda parts: b"".join(parts).replace(b"|", b" "))


@settings(deadline=None)
@given(_SOUP, st.lists(st.integers(0, 4), max_size=40), st.booleans())
def test_statements_are_those_of_the_whole_text(data: bytes, sizes: list[int], escapes: bool) -> None:
    data = b"DO 0;DO 0;" + data  # of two at least: a single one is given back with all that surrounds it
    notebook = Notebook()
    text = LargeText(notebook, None, several=True, backslash_escapes=escapes)
    assert fed(text, cut(data, sizes)) == data
    assert bare(notebook.asked) == bare(split_statements(data, backslash_escapes=escapes))


def bare(statements: list[bytes]) -> list[bytes]:
    """Without what separates them."""
    return [sql for sql in (sql.strip(b"; \n") for sql in statements) if not is_empty(sql)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 50_000), max_size=8), st.booleans())
def test_long_literal_passes_as_it_comes(sizes: list[int], several: bool) -> None:
    data = b"INSERT INTO t VALUES ('" + b"it''s; \\' -- /* " * 20_000 + b"')"
    text = large(several=several)
    passed = 0
    for piece in cut(data, sizes):
        passed += len(text.feed(piece))
        assert len(text.buffered) < HEAD_BYTES
    assert passed >= len(data) - 3 and fed(text, []) == data[passed:]
    assert not text.stopped and text.effects is NO_EFFECTS and text.verb is None


def test_everything_is_one_statement_where_only_one_may_come() -> None:
    text = large(several=False)
    data = b"SELECT 1; SELECT * FROM STREAM q" + b" " * HEAD_BYTES
    assert text.feed(data) == b"" and text.stopped
    text = large(several=False)
    pieces = [b"SELECT 1" + b" " * HEAD_BYTES, b"; ACK q 1"]
    assert fed(text, pieces) == b"".join(pieces)


LONG = b"INSERT INTO t VALUES ('" + b"x" * HEAD_BYTES + b"')"


@pytest.mark.parametrize("step", [1 << 20, 7_001])
@pytest.mark.parametrize(
    ("rest", "stops_before"),
    [
        (b"; SELECT * FROM STREAM q", b" SELECT * FROM STREAM q"),
        (b";\n-- so\nACK q 1, 2; SELECT 1", b"\n-- so\nACK q 1, 2; SELECT 1"),
        (b"; SELECT 1; USE other", b" USE other"),
        (b"; SELECT ';'; CREATE QUEUE r (a INT)", b" CREATE QUEUE r (a INT)"),
        (b"; CREATE TABLE m (a INT) COMMENT 'vitess_message'", b" CREATE TABLE m (a INT) COMMENT 'vitess_message'"),
        (b"; SELECT 1; SELECT 'ACK q 1'", b""),
        (b"; -- ACK q 1", b""),
        (b";;; ", b""),
        (b"; CREATE PROCEDURE p() BEGIN SELECT 1; ACK q 1; END", b""),
    ],
)
def test_stops_at_the_first_that_is_not_the_databases(step: int, rest: bytes, stops_before: bytes) -> None:
    data = LONG + rest
    text = large()
    passed = fed(text, [data[at : at + step] for at in range(0, len(data), step)])
    assert text.stopped == bool(stops_before)
    assert passed == data.removesuffix(stops_before)
    assert not text.stopped or data.startswith(passed + bytes(text.buffered))


def test_text_that_begins_with_ours_gives_nothing_away() -> None:
    for sql in (b"ACK q 1", b"UPDATE q SET state = 'acked' WHERE id = 1 AND t = '", b"SELECT * FROM STREAM q WHERE '"):
        text = large()
        assert text.feed(sql + b"x" * HEAD_BYTES) == b"" and text.stopped


def test_effects_of_what_is_not_seen() -> None:
    """The end of a long statement may hold ON DUPLICATE KEY UPDATE, or ids that end messages."""
    text = large()
    fed(text, [b"INSERT INTO q (payload) VALUES ('" + b"x" * HEAD_BYTES + b"')"])
    assert text.effects == Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)))
    text = large()
    fed(text, [b"DELETE FROM q WHERE id IN (1, 2" + b" " * HEAD_BYTES + b", 3)"])
    assert text.effects == Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)))
    text = large()
    fed(text, [LONG + b"; INSERT INTO q (payload) VALUES ('x'); INSERT INTO t VALUES (1)"])
    assert text.effects == Effects(touched=frozenset((Q,)), uncertain=frozenset((Q,)), several=True)


def test_effects_and_the_end_of_a_transaction_are_told_apart() -> None:
    text = large()
    assert fed(text, [b"INSERT INTO q (payload) VALUES ('x');COMMIT;" + LONG]).endswith(b"('x');")
    assert text.stopped and bytes(text.buffered) == b"COMMIT;" + LONG
    text = large()
    assert fed(text, [LONG + b";COMMIT;INSERT INTO q (payload) VALUES ('x')"]) == LONG + b";COMMIT;"
    assert text.stopped and text.verb is TransactionVerb.OPAQUE
    text = large()
    assert fed(text, [LONG + b";COMMIT;SELECT 1"]).endswith(b"SELECT 1")
    assert not text.stopped and text.verb is TransactionVerb.OPAQUE


def test_strings_without_escapes() -> None:
    data = LONG + rb"; SELECT '\'; ACK q 1"
    text = large(backslash_escapes=False)
    assert fed(text, [data]) == LONG + rb"; SELECT '\';" and text.stopped
    text = large()
    assert fed(text, [data]) == data
