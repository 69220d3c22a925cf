"""The pure parts of the console's further pages: options, seeks, receivers, proxies."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import sampler
from console.database import Answer
from console.pages.figures import Group, TopicFigures
from console.pages.overview import Overview, read_overview
from console.pages.queue_options import KINDS, Option, OptionsPage, composed, explicit_options, options_of
from console.pages.receivers import connection_of, receiver
from console.pages.seek import Count, Target, consequences, target_of
from console.pages.system import Proxy, proxies
from console.pages.visible_queues import COUNTED_MAX
from console.rates import STALE_SECONDS, Rates, Samples
from console.rendering import environment
from console.visits import BadInput, Visit
from engine.model.options import OF_GROUPS, OPTIONS
from engine.model.queue import QueueName
from rewriter.grammar.beginning import moment
from rewriter.grammar.parse import parse
from rewriter.grammar.statements import AlterQueue

ROOT = Path(__file__).resolve().parent.parent.parent.parent
T = QueueName("shop", "events")


def visit(**fields: str) -> Visit:
    session: Any = None  # no page of these asks for it
    return Visit(session, fields, Rates(), 0.0, "")


# --- options


def test_every_option_that_may_be_changed_is_in_the_form():
    assert {kind.name for kind in KINDS} == set(OPTIONS) - set(OF_GROUPS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_form_has_the_default_of_the_reference(kind):
    page = (ROOT / "docs" / "reference-options.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{kind.name}` |"))
    told = re.sub(r"`|\(.*", "", row.split("|")[2]).strip()
    assert kind.default == told


def statement(**fields: str) -> AlterQueue:
    what = composed(visit(db="shop", name="orders", **fields))
    found = parse(what.text)
    assert isinstance(found, AlterQueue)
    return found


def test_only_what_was_changed_is_in_the_statement():
    found = statement(
        ack_wait="2m", was_ack_wait="30s", prefetch="1000", was_prefetch="1000", max_rate="", was_max_rate="5"
    )
    assert found.options == {"ack_wait": "2m", "max_rate": None}
    assert (found.name.database, found.name.table) == ("shop", "orders")


def test_a_filter_may_have_several_lines_and_is_not_changed_by_its_form():
    before = " kind = 1\nOR amount > 5"
    same = before.strip()
    assert statement(filter=same, was_filter=before, ack_wait="2m", was_ack_wait="30s").options == {"ack_wait": "2m"}
    assert statement(filter="kind = 2\n\tOR amount > 5", was_filter=before).options == {
        "filter": "kind = 2\n\tOR amount > 5"
    }
    page = OptionsPage(T, (Option("filter", before, "none", ""),), "events", "g", "", "")
    text = environment().get_template("queue_options.html").render(
        seen=page, typed={}, token="", account=None, navigation=(), here="", address="", notice="", ran="", undo=None,
        refused=None,
    )  # fmt: skip
    assert f">\n{html.escape(before)}</textarea>" in text, "an input would lose the line break"


def test_a_program_gives_what_it_wants_changed():
    assert statement(prefetch="20", max_rate="").options == {"prefetch": "20", "max_rate": None}


@pytest.mark.parametrize(
    ("name", "value"), [("ack_wait", "a\nb"), ("ack_wait", "a\\b"), ("filter", "a\x7fb"), ("filter", "\x01")]
)
def test_a_value_that_no_option_has(name, value):
    with pytest.raises(BadInput, match=name):
        composed(visit(db="shop", name="orders", **{name: value}))


def test_nothing_to_change():
    with pytest.raises(BadInput, match="nothing is changed"):
        composed(visit(db="shop", name="orders", ack_wait="30s", was_ack_wait="30s"))


@given(
    st.text(
        alphabet=st.characters(min_codepoint=32, exclude_characters="\\\x7f", exclude_categories=["Cs"]),
        min_size=1,
        max_size=40,
    )
)
def test_a_value_stays_one_value_whatever_is_in_it(value):
    if value.strip():
        assert statement(dead_letter=value).options == {"dead_letter": value.strip()}


def test_the_options_of_a_definition():
    definition = "CREATE QUEUE `q` (`a` text DEFAULT 'WITH (x = 1)') WITH (ack_wait = '30s', order_key = 'a')"
    found = explicit_options(definition)
    assert found == {"ack_wait": "30s", "order_key": "a"}
    names = {each.name: each.value for each in options_of(found, of_group=False)}
    assert names["ack_wait"] == "30s" and names["max_rate"] == "" and "filter" not in names
    assert "group_key" not in {each.name for each in options_of(found, of_group=True)}


@pytest.mark.parametrize("definition", ["CREATE QUEUE", "SELECT 1", "CREATE QUEUE q (a INT) WITH (b"])
def test_a_definition_that_is_none(definition):
    with pytest.raises(ValueError, match="definition"):
        explicit_options(definition)


# --- the overview


class TopicsOnly:
    """A database with so many topics of so many groups each, and nothing else; remembers what it was asked."""

    def __init__(self, topics: int, groups: int) -> None:
        known = dict.fromkeys(("first_offset", "last_offset", "messages", "bytes", "last_minute", "readers", "problem"))
        self.topics = [{**known, "Database": "shop", "Topic": f"t{n}", "Groups": groups, "Options": ""}
                       for n in range(topics)]  # fmt: skip
        self.asked: list[str] = []

    async def read(self, sql: str, *values: object) -> Answer:
        self.asked.append(sql)
        rows = tuple(self.topics) if sql.startswith("SHOW TOPICS") else ()
        return Answer(sql, (), rows, 0)


async def overview_of(database: TopicsOnly) -> tuple[Overview, str]:
    session: Any = SimpleNamespace(database=database, cache={})
    seen = await read_overview(Visit(session, {}, Rates(), 0.0, ""))
    return seen, environment().get_template("overview_now.html").render(seen=seen)


async def test_groups_that_are_not_counted_are_not_called_well():
    database = TopicsOnly(2, COUNTED_MAX // 2)
    seen, text = await overview_of(database)
    assert seen.groups_counted and "Nothing needs attention" in text and "Groups are counted if" not in text
    database = TopicsOnly(2, COUNTED_MAX // 2 + 1)
    seen, text = await overview_of(database)
    assert not seen.groups_counted and "Nothing needs attention" not in text and "Groups are counted if" in text
    assert not any(sql.startswith("SHOW GROUPS") for sql in database.asked)


async def test_the_groups_of_one_topic_are_asked_for_alone():
    database = TopicsOnly(1, 1)
    await overview_of(database)
    assert "SHOW GROUPS ON `t0` FROM `shop`" in database.asked


# --- seeks


@pytest.mark.parametrize(
    ("kind", "value", "sql"),
    [
        ("earliest", "", "EARLIEST"),
        ("latest", "not read", "LATEST"),
        ("offset", " 900 ", "OFFSET 900"),
        ("timestamp", "2026-05-01", "TIMESTAMP '2026-05-01 00:00:00'"),
        ("timestamp", "2026-05-01T12:30", "TIMESTAMP '2026-05-01 12:30:00'"),
        ("timestamp", "2026-05-01 12:30:01.5Z", "TIMESTAMP '2026-05-01 12:30:01.5'"),
    ],
)
def test_where_a_seek_leads(kind, value, sql):
    target = target_of(kind, value)
    assert target.sql == sql
    assert not target.moment or moment(target.moment) == target.moment, "as the proxy reads it"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("offset", ""),
        ("offset", "-1"),
        ("offset", "1e3"),
        ("offset", "٣"),
        ("offset", "1" * 19),
        ("timestamp", ""),
        ("timestamp", "yesterday"),
        ("timestamp", "2026-13-01"),
        ("timestamp", "1970-01-01"),
        ("timestamp", "2038-01-01"),
        ("timestamp", "2026-05-01 12:00:00'; DROP TABLE x"),
        ("timestamp", "2026-05-01 12:00:00+02:00"),
    ],
)
def test_where_no_seek_leads(kind, value):
    with pytest.raises(BadInput, match="value"):
        target_of(kind, value)


def test_a_time_is_utc():
    assert target_of("timestamp", "2026-05-01 12:00:00.25").moment_ns == 1_777_636_800_250_000_000


def figures(**changed: Any) -> TopicFigures:
    known = {
        "first_offset": 1, "last_offset": 100, "messages": 100, "bytes": None, "last_minute": 0, "readers": 0,
        "options": "", "problem": None,
    }  # fmt: skip
    return TopicFigures(T, **{**known, **changed})


def group(**changed: Any) -> Group:
    known = {
        "name": "billing", "queue": QueueName("shop", "events_group_billing"), "paused": False, "members": 1,
        "offset": 50, "unread": 50, "oldest_unread_age": 1.0, "holes": 0, "lost": 0, "ready": 0, "waiting": 0,
        "in_flight": 0, "dead": 0, "alarms": 0, "exact": True, "problem": None,
    }  # fmt: skip
    return Group(**{**known, **changed})


def will(first: int | None, between: Count, kind: str = "offset", **changed: Any) -> str:
    return " ".join(consequences(figures(), group(**changed), Target(kind, first or 0), first, between))


def test_a_seek_back_and_forward():
    assert "delivered to the group again: 40," in will(11, Count(40))
    assert "are skipped: the group never gets them: 30," in will(81, Count(30))
    assert "at most 100000" in will(81, Count(100_000, exact=False))
    assert "is there already" in will(51, Count(0))
    assert "no message in between" in will(11, Count(0))


def test_a_seek_beyond_the_end():
    assert "is refused, unless" in will(102, Count(50)) and "is refused, unless" not in will(101, Count(50))


def test_a_seek_says_what_is_dropped():
    said = will(11, Count(40), ready=3, waiting=2, in_flight=1, dead=4, paused=True)
    assert "3 ready, 2 waiting, 1 in flight" in said
    assert "handled twice" in said and "dead letters stay: 4" in said and "paused" in said
    assert "no messages to drop" in will(11, Count(40))
    unknown = will(11, Count(40), ready=None)
    assert "drop" not in unknown, "what is not known is not told"


def test_a_seek_to_a_time_that_cannot_be_found():
    said = will(None, Count(None, why="ERROR 1142: SELECT command denied"), "timestamp")
    assert said.startswith("The group continues, as far as is known.") and "skipped" not in said


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ("", "id"),
        ("sequence = on", "queuegate_seq"),
        ("retain = 7d, sequence = on", "queuegate_seq"),
        ("compact = sequence", "id"),
    ],
)
def test_the_column_of_the_offsets(options, column):
    assert figures(options=options).offset_column == column


# --- receivers and proxies

ROW = {
    "queue": "orders", "database": "shop", "connection_id": 7, "user": "app", "host": "10.0.0.7:5", "mode": "endless",
    "filter": "", "prefetch": 10, "unacked": 10, "sent": 12, "waiting": 0, "window_full": 0, "since": None,
    "consumer": None, "pid": None,
}  # fmt: skip


def test_what_a_receiver_does():
    assert "acks" in receiver({**ROW, "window_full": 1, "waiting": 1}).does
    assert receiver({**ROW, "waiting": 1}).does == "waits for messages"
    assert "not read" in receiver(ROW).does
    assert receiver(ROW).filter is None


@pytest.mark.parametrize("text", ["", "-1", "1; KILL 2", "１２", "1" * 21, "0x1"])
def test_what_is_no_connection(text):
    with pytest.raises(BadInput, match="connection"):
        connection_of(text)


def test_the_processes_of_a_proxy_are_one_line():
    def row(proxy: str, worker: int, seen: int) -> dict[str, Any]:
        return {
            "place": "shop",
            "proxy": proxy * 32,
            "worker": worker,
            "address": "10.0.0.1:99",
            "server": "db:3306:1",
            "time_seen": seen,
        }

    assert proxies([row("a", 0, 5), row("a", 1, 7), row("b", 0, 6)]) == (
        Proxy("shop", "a" * 8, 2, ("10.0.0.1:99",), "db:3306:1", 7),
        Proxy("shop", "b" * 8, 1, ("10.0.0.1:99",), "db:3306:1", 6),
    )


# --- the sampler


@pytest.fixture
def pauses(monkeypatch):
    """How long the sampler pauses after reads that take so long and come to that; the last one ends it."""

    async def run(*reads: tuple[float, object]) -> list[float]:
        now, made, rest = 0.0, [], iter(reads)

        class Loop:
            def time(self) -> float:
                return now

        async def read(*_: object) -> object:
            nonlocal now
            seconds, outcome = next(rest)
            now += seconds
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        async def pause(seconds: float) -> None:
            made.append(seconds)
            if len(made) == len(reads):
                raise asyncio.CancelledError

        plain = SimpleNamespace(get_running_loop=Loop, to_thread=read, sleep=pause)
        monkeypatch.setattr(sampler, "asyncio", plain)
        with pytest.raises(asyncio.CancelledError):
            await sampler.sample("x", Rates(), lambda: now)
        return made

    return run


async def test_the_counters_are_read_again_soon_also_after_a_failure(pauses):
    reads = ((0.01, Samples()), (0.2, Samples()), (5.0, Samples()), (20.0, TimeoutError("timed out")))
    assert await pauses(*reads) == [5.0, pytest.approx(10.0), 60.0, 5.0]
    assert sampler.PAUSE_SECONDS_MAX + sampler.ANSWER_SECONDS < STALE_SECONDS


@pytest.mark.parametrize("place", ["http://h:93o7/counters", "http://[::1/counters", "http://:x"])
def test_a_place_that_is_no_url(place):
    with pytest.raises(ValueError):
        sampler.read_counters(place)
