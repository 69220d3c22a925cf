"""The pure parts of the console: names of hosts, keys of pages, rates, sessions, limits, charts, values."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.charts import area_chart, delay_chart, delay_text, sparkline, thinned
from console.hosts import hosts_of, local_path
from console.json_form import plain
from console.pages.figures import Figures
from console.pages.keyset import Ordered, after_sql, as_text, from_text, order_sql
from console.rates import (
    COARSE,
    COUNTED,
    FINE,
    FINE_SECONDS,
    QUEUES_MAX,
    STALE_SECONDS,
    Coverage,
    Rates,
    Sample,
    Samples,
    quantile,
)
from console.refused_logins import LoginLimits
from console.rendering import age, indented, moment, number, pieces, utc
from console.sampler import parsed
from console.sessions import (
    IDLE_SECONDS,
    LONGEST_SECONDS,
    OF_ACCOUNT_MAX,
    SESSIONS_MAX,
    Sessions,
    TooManySessions,
)
from console.settings import ConsoleSettings, ProxyPlace
from console.visits import BadInput
from engine.delivery.metrics import DELAY_BOUNDS, DELAY_BUCKETS
from engine.model.queue import QueueName, QueueStatus
from proxy.admin.metrics_page import counter_lines
from proxy.cluster.reports import ProcessCounts, counts_items, counts_of
from proxy.transport.addresses import Address

Q = QueueName("shop", "orders")


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Connections:
    """Stands for a session's connections; knows whether they were closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


# --- hosts


def hosts(listen="127.0.0.1:8307", **settings):
    host, _, port = listen.rpartition(":")
    return hosts_of(ConsoleSettings(Address(host, int(port)), ProxyPlace(), **settings))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8307", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("127.0.0.1:1", True),
        ("[::1]:8307", True),
        ("queues.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
        ("", False),
        ("localhost:x", False),
        ("user@localhost", False),
    ],
)
def test_names_of_a_console_on_loopback(host, expected):
    assert hosts().expects(host) is expected


def test_names_of_other_consoles():
    assert hosts("10.0.0.1:1").expects("10.0.0.1:1") and not hosts("10.0.0.1:1").expects("10.0.0.2")
    everywhere = hosts("0.0.0.0:1")
    assert everywhere.expects("10.1.2.3:1") and everywhere.expects("[fe80::1]") and not everywhere.expects("a.example")
    public = hosts(public_url="https://q.example.com:8443")
    assert public.expects("q.example.com:8443") and public.expects("Q.example.com")


@pytest.mark.parametrize(
    ("origin", "site", "expected"),
    [
        (None, None, True),
        ("http://localhost:8307", None, True),
        ("http://localhost:8307", "same-origin", True),
        (None, "none", True),
        ("http://localhost:8308", None, False),
        ("http://evil.example", None, False),
        ("null", None, False),
        ("http://[", None, False),
        ("http://a]b", None, False),
        (None, "cross-site", False),
        (None, "same-site", False),
        ("http://localhost:8307", "cross-site", False),
    ],
)
def test_from_which_pages_a_change_may_come(origin, site, expected):
    assert hosts().from_own_page("localhost:8307", origin, site) is expected


@pytest.mark.parametrize("given", ["", "x", "//e", "/\\e", "https://e", "/a b", "/\x7f", "/" + "a" * 3000])
def test_where_a_login_does_not_lead(given):
    assert local_path(given) == "/"


def test_where_a_login_leads():
    assert local_path("/queue?db=a&name=b%20c") == "/queue?db=a&name=b%20c"


# --- keys of pages

_VALUES = st.one_of(st.none(), st.integers(-3, 3))


@given(
    st.lists(st.tuples(_VALUES, _VALUES), max_size=8),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(1, 3),
)
def test_pages_by_key_are_all_rows_once_and_in_order(rows, descending, size):
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE t (a, b, id)")
    table.executemany("INSERT INTO t VALUES (?, ?, ?)", [(a, b, n) for n, (a, b) in enumerate(rows)])
    order = [Ordered(name, down) for name, down in zip(("a", "b", "id"), descending, strict=True)]
    wanted = table.execute(f"SELECT a, b, id FROM t ORDER BY {order_sql(order)}").fetchall()
    seen, where, values = [], "1", []
    for _ in range(len(rows) + 2):
        sql = f"SELECT a, b, id FROM t WHERE {where.replace('%s', '?')} ORDER BY {order_sql(order)} LIMIT {size}"
        page = table.execute(sql, values).fetchall()
        if not page:
            break
        seen += page
        where, values = after_sql(order, from_text(as_text(page[-1]), 3))
    assert seen == wanted


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(), st.binary()), min_size=3, max_size=3))
def test_a_key_comes_back_from_an_address(row):
    assert from_text(as_text(row), 3) == row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 6), "2026-01-02 03:04:05.000006"),
        (timedelta(hours=-30, microseconds=-1), "-30:00:00.000001"),
        (Decimal("1.50"), Decimal("1.50")),
        (0.5, "0.5"),
    ],
)
def test_a_key_of_another_type_is_its_text(value, text):
    assert from_text(as_text([value]), 1) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "WyJcdWQ4MDAiLDEsMV0=",
        "W3siZCI6Ik5hTiJ9LDEsMV0=",
        "W3siZCI6MX0sMSwxXQ==",
        "",
        "x",
        "é",
        "W10=",
        "e30=",
        "W3RydWUsMSwxXQ==",
        "WzEsMiwzLDRd",
        "W3sieCI6MX0sMSwxXQ==",
        "Ww==",
    ],
)
def test_what_is_no_key(text):
    with pytest.raises(BadInput):
        from_text(text, 3)


def test_names_in_keys_are_quoted():
    assert order_sql([Ordered("a`b%", True)]) == "`a``b%%` DESC"


# --- rates


def one(counters):
    """The counters of a proxy that is alone."""
    return Samples({"": Sample(counters)})


def alone(page):
    """The counters on a page that tells of one process."""
    ((_, sample),) = parsed(page).processes.items()
    return sample.counters


def test_rates_are_increases_and_the_first_counters_say_nothing():
    rates = Rates()
    assert rates.last_minute(Q, "acked", 0) is None
    rates.add(one({Q: [100, 0, 0, 0]}), 1000)
    rates.add(one({Q: [103, 0, 2, 0]}), 1005)
    rates.add(one({Q: [104, 0, 2, 0]}), 1010)
    assert rates.last_minute(Q, "enqueued", 1010) == 4
    assert rates.fine(Q, "enqueued", 1010)[-2:] == [3, 1]
    assert rates.coarse(Q, "acked", 1010)[-1] == 2
    assert len(rates.fine(Q, "acked", 1010)) == FINE and len(rates.coarse(Q, "acked", 1010)) == COARSE


def test_a_queue_that_begins_to_count_and_a_proxy_that_was_started_again():
    rates = Rates()
    rates.add(one({}), 0)
    rates.add(one({Q: [7, 0, 0, 0]}), 5)
    rates.add(one({Q: [2, 0, 0, 0]}), 10)
    assert rates.last_minute(Q, "enqueued", 10) == 9


def test_old_points_are_gone():
    rates = Rates()
    rates.add(one({}), 0)
    rates.add(one({Q: [7, 0, 0, 0]}), 5)
    rates.add(one({Q: [7, 0, 0, 0]}), 60)
    assert rates.last_minute(Q, "enqueued", 60) == 7
    rates.add(one({Q: [7, 0, 0, 0]}), 70)
    assert rates.last_minute(Q, "enqueued", 70) == 0
    assert added_up(rates.fine(Q, "enqueued", 5 + (FINE - 1) * FINE_SECONDS)) == 7
    assert added_up(rates.fine(Q, "enqueued", 5 + FINE * FINE_SECONDS)) == 0
    assert added_up(rates.coarse(Q, "enqueued", 359 * 60)) == 7
    assert added_up(rates.coarse(Q, "enqueued", 10**9)) == 0


def added_up(points):
    return sum(point for point in points if point is not None)


def test_without_a_sample_nothing_is_known():
    rates = Rates()
    for n in range(31):
        rates.add(one({Q: [20 * n, 0, 0, 0]}), 1000 + 5 * n)
    last = 1000 + 5 * 30
    assert rates.last_minute(Q, "enqueued", last) == 240
    assert rates.last_minute(Q, "enqueued", last + STALE_SECONDS) == 240, "the minute before the last sample"
    later = last + STALE_SECONDS + 10
    assert not rates.is_known(later) and rates.last_minute(Q, "enqueued", later) is None
    points = rates.fine(Q, "enqueued", later)
    assert points[-21:] == [20, *[None] * 20] and rates.coarse(Q, "enqueued", later)[-1] is None
    assert "<polyline" in sparkline((("in", points),), "a line with a gap")


def test_what_was_counted_during_an_outage_is_spread_over_it():
    rates = Rates()
    rates.add(one({Q: values(0)}), 1000)
    rates.add(one({Q: values(20)}), 1005)
    rates.fine(Q, "enqueued", 1100)  # somebody looks meanwhile
    rates.add(one({Q: values(740, b0=100)}), 1185)
    assert rates.fine(Q, "enqueued", 1185)[-37:] == [20.0] * 37
    assert rates.last_minute(Q, "enqueued", 1185) == 240
    assert rates.coarse(Q, "enqueued", 1185)[-3:] == [240.0, 240.0, 240.0]
    assert all(rates.delays(Q, "p50", 1185, fine=True)[-36:])
    rates.add(one({Q: values(740 + FINE * 40, b0=100)}), 1185 + 2 * FINE * FINE_SECONDS)
    assert rates.fine(Q, "enqueued", 1185 + 2 * FINE * FINE_SECONDS) == [20.0] * FINE, "what is older is gone"


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 50)), max_size=300))
def test_a_ring_holds_what_was_added_in_its_time(steps):
    rates, at, total, added = Rates(), 0, 0, []
    rates.add(one({}), 0)
    for pause, count in steps:
        at, total = at + pause, total + count
        rates.add(one({Q: [total, 0, 0, 0]}), at)
        added.append((at, count))
    last = at // FINE_SECONDS
    wanted = sum(count for when, count in added if when // FINE_SECONDS > last - FINE)
    assert added_up(rates.fine(Q, "enqueued", at)) == wanted


def test_rings_are_bounded():
    rates = Rates()
    rates.add(one({}), 0)
    rates.add(one({QueueName("d", str(n)): [1, 0, 0, 0] for n in range(QUEUES_MAX + 50)}), 5)
    assert len(rates) == QUEUES_MAX


def test_of_too_many_active_queues_most_are_recorded_and_the_others_are_not_known():
    rates, queues = Rates(), [QueueName("d", str(n)) for n in range(QUEUES_MAX + 1)]
    for n in range(3):
        rates.add(one({queue: [n, 0, 0, 0] for queue in queues}), 5 * n)
    assert [rates.last_minute(queue, "enqueued", 10) for queue in queues[:-1]] == [2] * QUEUES_MAX
    assert rates.last_minute(queues[-1], "enqueued", 10) is None
    assert set(rates.coarse(queues[-1], "enqueued", 10)) == {None}
    later = 10 + FINE * FINE_SECONDS
    rates.add(one({queue: [2 + (n > 0), 0, 0, 0] for n, queue in enumerate(queues)}), later)
    assert rates.last_minute(queues[-1], "enqueued", later) == pytest.approx(0.1), "in the place of an idle one"
    assert rates.last_minute(queues[0], "enqueued", later) == 0, "which was idle"
    assert set(rates.coarse(queues[0], "enqueued", later)) == {None}, "and whose hours are gone"


def test_counters_are_read_from_the_page():
    page = (
        "# HELP x y\n"
        'queuegate_queue_enqueued_total{database="shop",queue="orders",worker="0"} 3.0\n'
        'queuegate_queue_enqueued_total{database="shop",queue="orders",worker="1"} 4.0\n'
        'queuegate_queue_acked_total{database="a\\"b",queue="c\\\\d\\ne"} 1\n'
        'queuegate_queue_looks_total{database="shop",queue="orders"} 99\n'
        "queuegate_queue_sent_total{} 1\nnonsense\n"
    )
    assert alone(page) == {Q: values(7, 0, 0, 0), QueueName('a"b', "c\\d\ne"): values(0, 0, 1, 0)}


def values(*counted, **delays):
    """The values of a queue: those of COUNTED, and how many deliveries were in the named buckets."""
    rest = [0] * (len(COUNTED) - len(counted))
    return [*counted, *rest, *(delays.get(f"b{n}", 0) for n in range(len(DELAY_BUCKETS)))]


def test_delays_are_read_from_the_page():
    bucket = 'queuegate_queue_delivery_delay_seconds_bucket{database="shop",queue="orders"'
    told = f'{bucket},le="0.001"}} 3\n{bucket},le="0.005"}} 5\n{bucket},le="+Inf"}} 6\n{bucket},le="7"}} 9\n'
    assert alone(told) == {Q: values(0, 0, 0, 0, b0=3, b2=2, b17=1)}


@given(st.lists(st.integers(0, 5), min_size=18, max_size=18), st.integers(1, 3))
def test_delays_come_through_the_page(counts, workers):
    status = QueueStatus(Q, 0, 0, 0, {"sent": 1}, tuple(counts))
    page = "".join(counter_lines([ProcessCounts(f"p{n}", 1.0, (status,)) for n in range(workers)]))
    samples = parsed(page).processes
    assert list(samples) == [f"p{n}" for n in range(workers)]
    assert all(sample.counters[Q] == [0, 1, 0, 0, 0, *counts] for sample in samples.values())


def test_delays_are_those_of_their_time():
    rates = Rates()
    rates.add(one({Q: values(0, 0, 0, 0, b0=1000)}), 1000)
    assert rates.delays(Q, "p50", 1000, fine=True) == [None] * FINE
    rates.add(one({Q: values(0, 0, 0, 0, b0=1098, b17=2)}), 1005)
    rates.add(one({Q: values(0, 0, 0, 0, b0=1098, b2=10, b17=2)}), 1010)
    p50, p99 = (rates.delays(Q, what, 1015, fine=True)[-3:] for what in ("p50", "p99"))
    assert p50 == [pytest.approx(0.00051, abs=1e-5), pytest.approx(0.00375), None]
    assert p99[0] == 3600 and p99[1] == pytest.approx(0.004975) and p99[2] is None
    hours = rates.delays(Q, "p50", 1015, fine=False)
    assert len(hours) == COARSE and hours[-1] == pytest.approx(0.00056, abs=1e-5), "of all of that minute"


@given(st.lists(st.integers(0, 9), min_size=18, max_size=18).filter(any))
def test_a_quantile_lies_in_the_bucket_that_reaches_it(counts):
    half, most = quantile(0.5, counts), quantile(0.99, counts)
    assert 0 < half <= most <= DELAY_BOUNDS[-1]
    within = sum(count for bound, count in zip(DELAY_BOUNDS, counts, strict=False) if bound <= half)
    assert within <= sum(counts) / 2 or half in DELAY_BOUNDS


def test_the_page_of_counters_is_what_is_read():
    odd = QueueName('d"b\\', "q\nü")
    counts = [
        ProcessCounts(f"p{n}\"", n + 0.5, (
            QueueStatus(odd, 0, 0, 0, {"enqueued": 2, "acked": n}), QueueStatus(Q, 0, 0, 0, {"enqueued": 0})
        )) for n in range(3)
    ]  # fmt: skip
    samples = parsed("".join(counter_lines(counts, 2)))
    assert samples.missing == 2 and samples.finds_others
    assert not parsed("".join(counter_lines(counts, finds_others=False))).finds_others
    assert samples.processes == {f'p{n}"': Sample({odd: values(2, 0, n, 0)}, n + 0.5) for n in range(3)}
    assert counts_of([item for each in counts for item in counts_items(each)]) == [
        ProcessCounts(each.process, each.seconds, each.queues[:1]) for each in counts
    ]


def test_a_process_that_is_seen_again_has_counted_meanwhile_and_nothing_twice():
    rates = Rates()
    rates.add(Samples({"a": Sample({Q: [10, 0, 0, 0]}), "b": Sample({Q: [500, 0, 0, 0]})}), 0)
    rates.add(Samples({"a": Sample({Q: [11, 0, 0, 0]})}, missing=1), 5)
    assert rates.coverage == Coverage(1, 1)
    rates.add(Samples({"a": Sample({Q: [11, 0, 0, 0]}), "b": Sample({Q: [504, 0, 0, 0]})}), 10)
    assert rates.coverage == Coverage(2, 0)
    assert rates.last_minute(Q, "enqueued", 10) == 5


def test_a_process_that_is_linked_later_brings_no_old_counts_and_a_new_one_all_of_them():
    rates = Rates()
    rates.add(Samples({"a": Sample({}, 1.0)}), 0)
    rates.add(Samples({"old": Sample({Q: [900, 0, 0, 0]}, 3600.0), "new": Sample({Q: [3, 0, 0, 0]}, 2.0)}), 5)
    assert rates.last_minute(Q, "enqueued", 5) == 3


# --- sessions and logins


def test_sessions_end_by_time():
    time, made = Time(), Connections()
    sessions = Sessions(time)
    session = sessions.begin("ann", made)
    time.now += IDLE_SECONDS - 1
    assert sessions.find(session.id, use=False) is session
    time.now += 1
    assert sessions.find(session.id) is None and made.closed and len(sessions) == 0


def test_a_session_that_is_used_ends_after_a_day():
    time, sessions = Time(), None
    sessions = Sessions(time)
    session = sessions.begin("ann", Connections())
    for _ in range(23):
        time.now += 3600
        assert sessions.find(session.id) is session
    time.now = 1000 + LONGEST_SECONDS
    assert sessions.find(session.id) is None


def test_sessions_are_bounded():
    time = Time()
    sessions = Sessions(time)
    first = sessions.begin("ann", Connections())
    for _ in range(OF_ACCOUNT_MAX):
        time.now += 1
        last = sessions.begin("ann", Connections())
    assert sessions.find(first.id) is None and sessions.find(last.id) is last
    for n in itertools.count():
        if len(sessions) == SESSIONS_MAX:
            break
        sessions.begin(f"user {n}", Connections())
    with pytest.raises(TooManySessions):
        sessions.begin("one more", Connections())
    time.now += IDLE_SECONDS
    assert sessions.begin("one more", Connections())


def test_ids_and_tokens():
    sessions = Sessions(Time())
    made = [sessions.begin(f"u{n}", Connections()) for n in range(50)]
    assert len({session.id for session in made} | {session.token for session in made}) == 100
    assert min(map(len, (session.id for session in made))) >= 43
    assert made[0].has_token(made[0].token) and not made[0].has_token(made[1].token) and not made[0].has_token("é")


def test_a_program_is_known_by_its_password_and_by_nothing_that_a_cookie_could_have():
    sessions = Sessions(Time())
    session = sessions.begin_api("10.0.0.1", b"pw", "ann", Connections())
    assert sessions.find_api("10.0.0.1", "ann", b"pw") is session
    assert sessions.find_api("10.0.0.1", "ann", b"p") is None and sessions.find_api("10.0.0.1", "annp", b"w") is None
    assert sessions.find_api("10.0.0.2", "ann", b"pw") is None, "a guess from there is a login, and counted"


def test_logins_are_limited_for_an_address_and_in_all():
    time = Time()
    limits = LoginLimits(100, time)
    assert (limits.of_address, limits.in_all) == (10, 30)
    assert [limits.attempt("10.0.0.1") for _ in range(10)] == [0] * 10
    assert limits.attempt("10.0.0.1") > 0
    for n in range(2, 4):
        assert [limits.attempt(f"10.0.0.{n}") for _ in range(10)] == [0] * 10
    assert limits.attempt("10.0.0.9") > 0, "in all"
    time.now += 60
    assert limits.attempt("10.0.0.1") == 0


def test_a_login_that_works_takes_none():
    limits = LoginLimits(100, Time())
    for _ in range(100):
        assert limits.attempt("10.0.0.1") == 0
        limits.succeeded("10.0.0.1")


@pytest.mark.parametrize("allowed", [1, 2, 5, 12, 50, 100])
def test_fewer_may_fail_here_than_at_the_proxy(allowed):
    limits = LoginLimits(allowed, Time())
    assert 1 <= limits.of_address <= limits.in_all and (limits.in_all < allowed or allowed == 1)


# --- values


def test_numbers_ages_and_times():
    assert number(1234567) == "1\u2009234\u2009567" and number(None) == "–"
    assert [age(s) for s in (None, 0.4, 59, 61, 3600, 90061)] == ["–", "0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]
    assert 'datetime="2026-11-25T19:00:00.123Z"' in moment(1795633200_123_000_000)
    assert 'datetime="2026-11-25T19:00:00.123Z"' in utc("2026-11-25 19:00:00.123")
    assert utc("<b>") == "&lt;b&gt;" and moment(10**30) == str(10**30) and moment(None) == "–"


def test_charts_escape_and_scale():
    drawn = sparkline((("in", [0, 1, 2]), ("out", [])), '"<b>')
    assert drawn.count("<polyline") == 1 and "<b>" not in drawn and "style=" not in drawn
    assert 'points="0.0,' in area_chart((("in", "enqueued", [0.0] * 5),), "t", 600, "per minute")
    assert thinned([1.0] * 10, 4) == [3, 3, 3, 1]


def test_a_chart_has_ticks_and_the_values_of_each_point():
    lines = (("in", "enqueued <b>", [0.0, 2400.0]), ("out", "acked", [1.5, None]))
    drawn = area_chart(lines, "t", 600, "per minute")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert texts == ["0", "2000", "4000", "10 min ago", "8 min ago", "6 min ago", "4 min ago", "2 min ago", "now",
                     "per minute"]  # fmt: skip
    titles = re.findall(r"<title>([^<]*)</title>", drawn)
    assert titles == [
        "10 min ago: enqueued &lt;b&gt; 0, acked 1.5 per minute", "now: enqueued &lt;b&gt; 2400 per minute",
    ]  # fmt: skip
    hours = re.findall(r"<text[^>]*>([^<]*ago)</text>", area_chart((), "t", 6 * 3600, "per minute"))
    assert hours == ["6 h ago", "4.8 h ago", "3.6 h ago", "2.4 h ago", "1.2 h ago"]


def test_lines_of_delays_have_gaps():
    drawn = delay_chart((("p50", "half", [None, 0.001, 0.002, None, 0.004]),), "delays", 600)
    assert drawn.count("<polyline") == 2 and "half 4 ms" in drawn and drawn.count("<title>") == 3
    assert "half 2.5 s" in delay_chart((("p50", "half", [2.5]),), "delays", 600)
    assert (delay_text(0.0123), delay_text(61.0)) == ("12.3 ms", "61 s")


def test_values_for_programs():
    assert plain({"a": (Decimal("1.10"), b"\xff", b"x", Q)}) == {
        "a": ["1.10", {"hex": "ff"}, "x", {"database": "shop", "name": "orders"}]
    }
    assert plain(Figures(Q, ready=1))["ready"] == 1


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '[1.50, {"b": "}\\\\{\\"", "c": []}, {}, null]', '{"a": {"b": [true, "x, y: z"]}}', " [ ] "]
)
def test_json_is_indented_and_stays_the_same(text):
    shown = indented(text)
    assert json.loads(shown) == json.loads(text)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", text)


def test_what_is_indented():
    assert indented('{"a":[1.50,{}]}') == '{\n  "a": [\n    1.50,\n    {}\n  ]\n}'
    for text in ("", "plain", "{not json", "17", "[" * 5000, '{"a": "' + "x" * 30_000 + '"}'):
        assert indented(text) == text


def test_a_list_of_many_pieces_is_cut_short():
    assert pieces("all") == "all"
    assert pieces("-20,40-60,80-a0,c0-") == "-20,40-60,80-a0,c0-"
    assert pieces("-10,20-30,40-50,60-70,80-90") == "-10,20-30,40-50,60-70 and 1 more"
