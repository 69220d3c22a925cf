"""StatementReader: a statement is looked at once on its way from the socket to its plan, and again where what was seen
of it may be true no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rewriter_catalog import CATALOG

from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog
from mysql_wire.replies import MULTI_STATEMENTS
from proxy.rights.account_rights import Right, SessionRights, queue_rights
from proxy.session.session import Reach, StatementSettings
from proxy.statements.planning import Planning
from proxy.statements.reader import StatementReader
from rewriter.plan import Execute
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner
from rewriter.text.queue_names import UNKNOWN_DATABASE

ACK = b"ACK shop.limited WHERE id > 1 AND id < 4"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every text that a scanner is asked about."""
    asked: list[bytes] = []
    classify = StatementScanner.classify

    def counted(self: StatementScanner, sql: bytes, database: str | None, **options: bool) -> Classification:
        asked.append(sql)
        return classify(self, sql, database, **options)

    monkeypatch.setattr(StatementScanner, "classify", counted)
    return asked


def reader(codec: str = "utf-8") -> tuple[StatementReader, Any, Any]:
    """With its session and its engine."""
    session: Any = SimpleNamespace(
        rights=None,
        database="shop",
        no_backslash_escapes=False,
        settings=StatementSettings(),
        identity=SimpleNamespace(codec=codec),
        reporter=lambda: "",
        reading_modes=frozenset,
    )
    engine: Any = SimpleNamespace(catalog=CATALOG)
    traits: Any = SimpleNamespace(accounts=False)
    views: Any = None
    planning = Planning(engine, QueueOptions())
    return StatementReader(session, engine, planning, views, traits, allow_drop_table=False), session, engine


async def test_a_statement_is_looked_at_once(looks: list[bytes]) -> None:
    statements, _, _ = reader()
    assert statements.classify(ACK).kind is StatementClass.PLAN  # on the fast path
    assert statements.classify(ACK).kind is StatementClass.PLAN  # as a command
    assert isinstance(await statements.planned(ACK), Execute)
    assert looks == [ACK]


async def test_another_database_is_looked_at_again(looks: list[bytes]) -> None:
    statements, session, _ = reader()
    text = b"ACK limited WHERE id < 2"
    statements.classify(text)
    session.database = "elsewhere"
    statements.classify(text)
    session.database = "shop"
    assert isinstance(await statements.planned(text), Execute)
    assert looks == [text] * 3


async def test_another_catalog_is_looked_at_again(looks: list[bytes]) -> None:
    statements, _, engine = reader()
    statements.classify(ACK)
    engine.catalog = QueueCatalog(CATALOG.version + 1, dict(CATALOG.queues), {})
    assert isinstance(await statements.planned(ACK), Execute)
    assert looks == [ACK] * 2


async def test_another_encoding_is_looked_at_again(looks: list[bytes]) -> None:
    """The planner reads UTF-8: in these bytes a name may be another one."""
    statements, _, _ = reader("latin-1")
    text = "ACK shop.limited 1 /* é */".encode("latin-1")
    statements.classify(text)
    assert isinstance(await statements.planned(text), Execute)
    assert looks == [text, text.decode("latin-1").encode()]


async def test_what_was_seen_is_kept_until_the_plan_is_made_and_no_longer(looks: list[bytes]) -> None:
    """A text may be many megabytes. What an account may see is planned from a catalog of its own: looked at again."""
    statements, session, _ = reader()
    statements.classify(ACK)

    session.rights = SessionRights(queue_rights({"*.*": [Right.SETTLE]}, None), lambda: CATALOG)
    assert isinstance(await statements.plan(ACK), Execute)
    assert statements._last_classified is None and looks == [ACK] * 2


@pytest.mark.parametrize(
    ("codec", "text", "again"),
    [
        ("utf-8", b"SET NAMES utf8mb4", True),
        ("utf-8", b"set names 'utf8mb4' collate 'utf8mb4_general_ci';", True),
        ("utf-8", b"SET NAMES latin1", False),
        ("cp1252", b"SET NAMES latin1", True),
        ("utf-8", b"SET NAMES utf8mb4, sql_mode = 'ANSI_QUOTES'", False),
        ("utf-8", b"SET NAMES @x", False),
        ("utf-8", b"USE shop", False),
    ],
)
def test_set_names_says_nothing_new_where_texts_are_read_so_already(codec: str, text: bytes, again: bool) -> None:
    statements, _, _ = reader(codec)
    assert statements.classify(text).kind is StatementClass.USE
    assert statements.names_again(text) is again


def test_what_a_plan_depends_on_is_made_anew_only_where_it_changed() -> None:
    statements, session, _ = reader()
    first = statements._plan_context()
    assert statements._plan_context() is first and first.database == "shop"
    session.database = "elsewhere"
    assert statements._plan_context().database == "elsewhere"
    session.reading_modes = lambda: frozenset(("ANSI_QUOTES",))
    assert statements._plan_context().sql_modes == {"ANSI_QUOTES"}


def test_after_an_unread_statement_transactions_may_span_shards_again() -> None:
    statements, session, _ = reader()
    session.settings.reach = Reach.ONE
    statements.learn(b"SET /*! transaction_mode = 'MULTI' */")
    assert session.settings.reach is Reach.UNKNOWN and session.settings.sets_reach


@pytest.mark.parametrize(
    ("text", "several", "modes", "codec", "hides"),
    [
        (b"INSERT INTO t VALUES ('it\\'s; use this')", True, (), "utf-8", False),
        (b"INSERT INTO t VALUES ('it\\'s; use this')", True, (), "gbk", True),
        (b"INSERT INTO t VALUES ('it\\'s; use this')", False, (), "gbk", False),
        (b"INSERT INTO t VALUES ('it\\'s; use this')", True, ("ANSI_QUOTES",), "utf-8", False),
        (b'INSERT INTO t VALUES ("it\\"s; use this")', True, (), "utf-8", False),
        (b'INSERT INTO t VALUES ("it\\"s; use this")', True, ("ANSI_QUOTES",), "utf-8", True),
        (b"SELECT '\\\\', /*! '*/' ; USE marys */", False, (), "utf-8", True),
    ],
)
def test_a_text_that_may_hide_statements(
    text: bytes, several: bool, modes: tuple[str, ...], codec: str, hides: bool
) -> None:
    statements, session, _ = reader(codec)
    session.writer = SimpleNamespace(capabilities=MULTI_STATEMENTS if several else 0)
    session.reading_modes = lambda: frozenset(modes)
    assert statements.classify(text).kind is (StatementClass.USE if hides else StatementClass.NONE)
    statements.learn(text)
    assert (session.database == UNKNOWN_DATABASE) is hides is session.settings.temporary
