"""Properties of what looks at SQL: the cheap look and the full parser agree, texts are cut where MySQL cuts them,
nothing but refusals comes out of the planner, and no text takes long.
"""

from __future__ import annotations

import re
import time
from random import Random

import fuzz_sql
import pytest
from fuzz_gate import FE, GROUPS, make_spec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_store import COLUMNS
from memory_topics import make_group, make_topic

from engine.model.errors import EngineError
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName
from rewriter.errors import RewriteError
from rewriter.grammar.parse import parse
from rewriter.plan import Effects, Passthrough, PlanContext
from rewriter.planner import Planner
from rewriter.plans.plan_statement import PlanBuilder
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner
from rewriter.text.lexis import is_empty, leading_verb, split_statements
from rewriter.text.queue_names import QueueNames
from rewriter.text.transaction_verbs import transaction_verb

FQ, FQ2 = QueueName("main", "fq"), QueueName("main", "fq2")
QUEUES = (
    *(make_spec(name) for name in (FQ, FQ2, QueueName("other", "fq"))),
    *(make_group(topic, group, COLUMNS) for topic, group in GROUPS),
)
CATALOG = QueueCatalog(
    1, {queue.name: queue for queue in QUEUES}, topics={topic: make_topic(topic) for topic, _ in GROUPS}
)
SCANNER = StatementScanner(CATALOG)
BUILDER = PlanBuilder(CATALOG, QueueNames(CATALOG), QueueOptions())
MAIN = PlanContext("main")
SEEDS = st.integers(0, 1 << 48)
SETTINGS_OF_ONE = re.compile(r"^\s*SET\s+STATEMENT\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)
OF_QUEUES_ALONE = re.compile(r"\bAFTER\b.*|^\s*SET\s+STATEMENT\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)


def statements(seed: int) -> str:
    random = Random(seed)
    text = fuzz_sql.statement(random)
    return fuzz_sql.mutated(random, text) if random.random() < 0.4 else text


# --- the cheap look and the parser


def classified(sql: str) -> Classification:
    return SCANNER.classify(sql.encode("utf-8", "surrogatepass"), "main")


def parsed(sql: str) -> Effects | str:
    """What the full parser makes of one statement: its effects if it is the database's, else what else it is."""
    try:
        statement = parse(sql)
        plan = None if statement is None else BUILDER.plan(statement, MAIN)
    except (RewriteError, EngineError) as error:
        return f"refused: {error.message}"
    if plan is None:
        return Effects()
    return plan.effects if isinstance(plan, Passthrough) else type(plan).__name__


@given(SEEDS)
@settings(max_examples=600, deadline=None)
def test_the_cheap_look_and_the_full_parser_agree(seed: int) -> None:
    """What the look lets pass, the parser would not have taken; and where both know the effects, they are the same."""
    sql = statements(seed)
    as_meant = sql == fuzz_sql.statement(Random(seed))
    if len(split_statements(sql.encode("utf-8", "surrogatepass"))) > 1:
        return
    classification = classified(sql)
    if classification.kind in (StatementClass.PLAN, StatementClass.USE):
        return
    found = parsed(sql)
    if isinstance(found, str) and classification.kind is StatementClass.NONE:
        found = parsed(OF_QUEUES_ALONE.sub("", sql))  # into what is no queue: the database will not know the clause
    if isinstance(found, str) and classification.kind is StatementClass.TOUCHES:
        found = parsed(SETTINGS_OF_ONE.sub("", sql))  # it goes to the database with its settings, unchanged
    if isinstance(found, str) and ("does not end" in found or "Executable comments" in found):
        return  # what cannot be read for sure; the database knows how
    if not as_meant and isinstance(found, str) and "error in your SQL syntax" in found:
        return  # to the database, too
    if isinstance(found, str) and "a NUL ends a statement" in found:
        return  # likewise; it has the same error
    assert isinstance(found, Effects), (sql, classification, found)
    if found != Effects() and classification.effects != found:
        feared = (
            classification.effects.touched | classification.effects.uncertain
        )  # of what no database will take it may be more
        assert not as_meant and feared >= found.touched | found.uncertain, sql


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_one_of_several_is_looked_at_as_alone(seed: int) -> None:
    """A statement for the planner makes the whole text one, and nobody's effects get lost."""
    random = Random(seed)
    parts = [fuzz_sql.statement(random) for _ in range(random.randint(2, 3))]
    text = "; ".join(parts)
    pieces = split_statements(text.encode())
    if len(pieces) < 2:
        return
    whole = SCANNER.classify(text.encode(), "main")
    alone = [SCANNER.classify(piece, "main") for piece in pieces]
    if any(one.kind in (StatementClass.PLAN, StatementClass.USE) for one in alone):
        assert whole.kind in (StatementClass.PLAN, StatementClass.USE), text
    if whole.kind is StatementClass.TOUCHES:
        for one in alone:
            assert one.effects.touched <= whole.effects.touched and one.effects.uncertain <= whole.effects.uncertain
            assert one.effects.catalog <= whole.effects.catalog
    if whole.kind is StatementClass.NONE:
        assert all(one.kind is StatementClass.NONE for one in alone), text


WRITES = {
    "INSERT INTO {q} (payload) VALUES ('a')": "touched",
    "INSERT IGNORE {q} SET payload = 1": "touched",
    "REPLACE INTO {q} (id) VALUES (1)": "uncertain",
    "INSERT INTO {q} (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 1": "uncertain",
    "UPDATE {q} SET priority = 1": "uncertain",
    "UPDATE ft a , {q} b SET b.priority = 1": "uncertain",
    "DELETE FROM {q} WHERE id > 1": "uncertain",
    "DELETE b FROM {q} b": "uncertain",
    "DELETE FROM {q} WHERE id = 1": "settled",
    "LOAD DATA INFILE 'x' INTO TABLE {q}": "uncertain",
    "TRUNCATE TABLE {q}": "uncertain",
    "ALTER TABLE {q} ADD COLUMN a INT": "catalog",
    "DROP TABLE IF EXISTS {q}": "catalog",
    "RENAME TABLE {q} TO z": "catalog",
}


@given(st.sampled_from(sorted(WRITES)), st.sampled_from(("fq", "`fq`", "main.fq", "`main` . `fq`", "other.fq")), SEEDS)
@settings(deadline=None)
def test_a_write_to_a_queue_is_seen_however_it_is_spelled(template: str, name: str, seed: int) -> None:
    random = Random(seed)
    sql = template.replace("{q}", name)
    sql = "".join(random.choice(fuzz_sql.SPACES) if c == " " and random.random() < 0.5 else c for c in sql)
    words = "".join(random.choice((c.lower(), c.upper())) if name not in sql or c not in name else c for c in sql)
    effects = classified(words).effects
    queue = QueueName("other", "fq") if "other" in name else FQ
    match WRITES[template]:
        case "touched":
            assert queue in effects.touched, words
        case "uncertain":
            assert queue in effects.uncertain, words
        case "settled":
            assert queue in effects.uncertain or (queue, (1,)) in effects.settled, words
        case "catalog":
            assert effects.catalog, words


INSERTS = (
    "INSERT INTO {q} (payload) VALUES ('a'), ('b')",
    "INSERT IGNORE {q} SET payload = 1",
    "INSERT LOW_PRIORITY INTO {q} (payload) SELECT name FROM ft",
    "REPLACE INTO {q} (payload) VALUES (1)",
    "INSERT INTO {q} (payload) VALUES (1) ON DUPLICATE KEY UPDATE payload = 2",
)
WITH_IDS = (
    "INSERT INTO {q} (id , payload) VALUES (1, 'a')",
    "INSERT IGNORE {q} (payload , ID) VALUES ('a', NULL), ('b', 2)",
    "INSERT INTO {q} (`id`) SELECT id FROM ft",
    "REPLACE INTO {q} (payload , id) VALUES (1, 2)",
)
TOPICS = st.sampled_from(("fe", "FE", "`fe`", "main.fe", "`main` . `fe`"))


def spelled(template: str, name: str, seed: int) -> str:
    """The statement with other spaces, and in any case."""
    random = Random(seed)
    pieces = template.replace("{q}", name).split(" ")
    sql = "".join(piece + (random.choice(fuzz_sql.SPACES) if random.random() < 0.5 else " ") for piece in pieces)
    return "".join(random.choice((c.lower(), c.upper())) for c in sql)


@given(st.sampled_from(INSERTS), TOPICS, SEEDS)
@settings(deadline=None)
def test_an_insert_into_a_topic_is_seen_however_it_is_spelled(template: str, name: str, seed: int) -> None:
    sql = spelled(template, name, seed)
    assert FE in classified(sql).effects.touched, sql


@given(st.sampled_from(WITH_IDS), TOPICS, SEEDS)
@settings(deadline=None)
def test_an_insert_that_gives_a_topic_ids_is_refused_however_it_is_spelled(template: str, name: str, seed: int) -> None:
    sql = spelled(template, name, seed)
    with pytest.raises(RewriteError):
        Planner(CATALOG).plan(sql, MAIN)


# --- the planner


@given(
    SEEDS, st.sampled_from((None, "main", "other")), st.sampled_from(((), ("NO_BACKSLASH_ESCAPES",), ("ANSI_QUOTES",)))
)
@settings(max_examples=400, deadline=None)
def test_nothing_but_refusals_comes_out_of_the_planner(seed: int, database: str | None, modes: tuple[str, ...]) -> None:
    sql = statements(seed).encode().decode(Random(seed).choice(("utf-8", "latin-1", "ascii")), "surrogateescape")
    try:
        Planner(CATALOG).plan(sql, PlanContext(database, sql_modes=frozenset(modes)))
    except (RewriteError, EngineError) as error:
        assert error.errno and len(error.sqlstate) == 5 and error.message


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_a_plan_does_not_hang_on_what_was_planned_before(seed: int) -> None:
    """Plans are remembered by their text; a remembered one is the one that would be made."""
    remembering = Planner(CATALOG)
    random = Random(seed)
    texts = [fuzz_sql.statement(random) for _ in range(4)]
    for sql in (*texts, *texts):
        told = []
        for planner in (remembering, Planner(CATALOG)):
            try:
                told.append(planner.plan(sql, MAIN))
            except (RewriteError, EngineError) as error:
                told.append(error.message)
        assert told[0] == told[1], sql


# --- where statements end


def cut_by_the_book(sql: bytes, *, backslash_escapes: bool) -> list[bytes]:
    """Statements as MySQL's lexer finds their ends, one byte at a time."""
    parts, start, at, quote = [], 0, 0, b""
    while at < len(sql):
        byte, pair = sql[at : at + 1], sql[at : at + 2]
        if quote:
            if byte == b"\\" and backslash_escapes and quote != b"`":
                at += 1
            elif byte == quote:
                quote = b""
        elif byte in (b"'", b'"', b"`"):
            quote = byte
        elif pair == b"/*":
            end = sql.find(b"*/", at + 2)
            at = len(sql) if end < 0 else end + 1
        elif byte == b"#" or (pair == b"--" and (len(sql) == at + 2 or sql[at + 2] <= 0x20)):
            end = sql.find(b"\n", at)
            at = len(sql) if end < 0 else end
        elif byte == b";":
            parts.append(sql[start:at])
            start = at + 1
        at += 1
    return [part.lstrip() for part in (*parts, sql[start:]) if not is_empty(part)]


PIECES = st.lists(
    st.sampled_from(
        (*(bytes((byte,)) for byte in b";'\"`\\#\n a\x00-*/"), b"/*", b"*/", b"--", b"-- ", b"SELECT 1", b"/*!", b"''")
    ),
    max_size=16,
)


@given(PIECES, st.booleans())
@example([b"a", b"--", b";", b"a"], True)
@example([b"a", b"`", b"\\", b"`", b";", b"a"], True)
@settings(max_examples=800, deadline=None)
def test_texts_are_cut_where_mysql_cuts_them(pieces: list[bytes], backslash_escapes: bool) -> None:
    sql = b"".join(pieces)
    expected = cut_by_the_book(sql, backslash_escapes=backslash_escapes)
    found = split_statements(sql, backslash_escapes=backslash_escapes)
    if len(expected) < 2:
        assert found == ([sql] if expected else [])
    else:
        assert [part.rstrip() for part in found] == [part.rstrip() for part in expected]


@given(PIECES)
@settings(max_examples=200, deadline=None)
def test_no_text_is_too_strange_for_a_look(pieces: list[bytes]) -> None:
    sql = b"".join(pieces)
    verb, end = leading_verb(sql)
    assert verb == sql[end - len(verb) : end].upper()
    assert transaction_verb(sql) is None or any(word in sql.upper() for word in (b"A", b"S", b"/*"))
    assert SCANNER.classify(sql, "main").kind in StatementClass


# --- time


@pytest.mark.parametrize("seed", range(6))
def test_no_text_takes_long(seed: int) -> None:
    """Half a megabyte of a few pieces, over and over: what backtracks would take minutes."""
    random = Random(f"slow/{seed}")
    for _ in range(8):
        head = fuzz_sql.statement(random).encode()
        body = b"".join(random.choice(fuzz_sql.PIECES).encode() for _ in range(random.randint(1, 4))) or b"("
        sql = head[: random.randint(0, len(head))] + body * (500_000 // len(body))
        for look in (lambda text: SCANNER.classify(text, "main"), split_statements, transaction_verb):
            began = time.process_time()
            look(sql)
            assert time.process_time() - began < 20, (look, sql[:200])
