"""What is wrong with a queue or a group, as one short line each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.pages.figures import Figures, Group
from console.pages.problems import (
    SHORT_CHARACTERS,
    Lately,
    Severity,
    Streams,
    group_problems,
    lately_of,
    problems,
    streams_of,
)
from console.rates import Rates, Sample, Samples
from engine.model.queue import QueueName, default_dead_letter

Q = QueueName("shop", "orders")
NO_STREAMS = Streams()
NOTHING = Lately()
QUIET = Lately(sent=0, acked=0, expired=0)
BUSY = Lately(sent=9, acked=9, expired=0)


def texts(of: Figures, streams: Streams = NO_STREAMS, lately: Lately = BUSY) -> list[str]:
    return [each.text for each in problems(of, streams, lately)]


def group(**changed: Any) -> Group:
    known = {
        "name": "billing", "queue": QueueName("shop", "events_group_billing"), "paused": False, "members": 1,
        "offset": 50, "unread": 0, "oldest_unread_age": None, "holes": 0, "lost": 0, "ready": 0, "waiting": 0,
        "in_flight": 0, "dead": 0, "alarms": 0, "exact": True, "problem": None,
    }  # fmt: skip
    return Group(**{**known, **changed})


def of_group(one: Group, streams: Streams = NO_STREAMS, lately: Lately = BUSY) -> list[str]:
    return [each.text for each in group_problems(one, one.figures, streams, lately)]


def test_a_queue_without_a_problem_has_no_line():
    assert texts(Figures(Q)) == texts(Figures(Q, ready=0, receivers=0)) == []
    assert texts(Figures(Q, ready=3, receivers=1, in_flight=2, oldest_age=1.0), Streams(1, 1)) == [], "for a moment"


def test_nobody_serves_a_queue():
    assert texts(Figures(Q, ready=1234, receivers=0, in_flight=0, oldest_age=125)) == [
        "nobody receives: 1\u2009234 ready for 2 min 5 s"
    ]
    assert texts(Figures(Q, ready=3, receivers=0, in_flight=0, exact=False)) == ["nobody receives: 3+ ready"]
    assert texts(Figures(Q, ready=3, receivers=0, in_flight=2)) == [], "its receivers have no stream open just now"


def test_dead_letters_wait_for_a_person():
    dead = Figures(Q._replace(table=default_dead_letter(Q.table)), ready=3, receivers=0, in_flight=0, oldest_age=9e5)
    (only,) = problems(dead, Streams(), QUIET)
    assert only.text == "3 wait to be redriven or discarded" and only.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("streams", "word"), [(Streams(2, full=2, unacked=8), "full"), (Streams(), "busy"), (Streams(2, full=1), "busy")]
)
def test_all_receivers_are_in_use(streams, word):
    of = Figures(Q, ready=12, receivers=2, in_flight=8, oldest_age=9)
    assert texts(of, streams) == [f"all receivers are {word}: 12 ready for 9 s, 8 in flight"]
    assert problems(of, streams, BUSY)[0].severity is Severity.WARNING
    assert problems(replace(of, oldest_age=61), streams, BUSY)[0].severity is Severity.BAD


def test_a_receiver_has_room_and_messages_wait_all_the_same():
    of = Figures(Q, ready=12, receivers=2, in_flight=1, oldest_age=61)
    assert texts(of, Streams(2, waiting=1)) == ["12 ready for 1 min 1 s, while a receiver waits"]
    assert texts(replace(of, oldest_age=59), Streams(2, waiting=1)) == []
    assert texts(replace(of, unmatched=12), Streams(2, waiting=1)) == ["12 ready fit no open stream"]


def test_leases_ran_out():
    of = Figures(Q, in_flight=2, receivers=1)
    lately = replace(QUIET, expired=4)
    assert texts(of, Streams(1, unacked=2, holder="mailer-3"), lately) == [
        "4 leases ran out: mailer-3 holds 2 and acked none"
    ]
    assert texts(of, Streams(2, unacked=2), lately) == ["4 leases ran out: the receiver holds 2 and acked none"]
    assert texts(of, Streams(1, unacked=2), replace(BUSY, expired=1)) == ["1 lease ran out in 10 min"]
    assert texts(of, Streams(), replace(lately, whole_minute=False))[0].endswith("acked none"), "as far as it counts"


def test_a_receiver_holds_messages_and_does_nothing():
    of, streams = Figures(Q, in_flight=2, receivers=1), Streams(1, unacked=2, holder="mailer-3")
    (only,) = problems(of, streams, QUIET)
    assert only.text == "mailer-3 holds 2 and acked none in a minute" and only.severity is Severity.NOTE
    assert texts(of, streams, NOTHING) == texts(of, streams, BUSY) == []
    assert texts(of, streams, replace(QUIET, whole_minute=False)) == [], "it is not known for a minute"
    assert texts(Figures(Q, in_flight=0, receivers=1), Streams(1), QUIET) == []


def test_the_worst_comes_first_and_each_leads_somewhere():
    of = Figures(Q, ready=3, receivers=0, in_flight=0, dead=1, parked=2, alarms=3, unmatched=4, problem="x")
    lines = problems(of, Streams(), BUSY, QueueName("shop", "graveyard"))
    assert [each.text for each in lines] == [
        "x", "nobody receives: 3 ready", "3 in flight for longer than alarm_after", "4 ready fit no open stream",
        "1 dead letter", "2 parked",
    ]  # fmt: skip
    assert all(each.address.startswith("/") and "db=shop" in each.address for each in lines)
    assert lines[4].address == "/dead?db=shop&name=graveyard"


def test_a_paused_queue():
    assert texts(Figures(Q, ready=3, receivers=0, paused=True)) == ["paused: it delivers nothing, 3 ready"]


def test_a_long_text_of_the_proxy_is_one_line_here():
    (only,) = problems(Figures(Q, problem="long " * 50), Streams(), BUSY)
    assert len(only.text) <= SHORT_CHARACTERS and only.text.endswith("…") and only.whole == "long " * 50


def test_every_line_is_short():
    big = 10**7
    of = Figures(Q, ready=big, in_flight=big, receivers=3, oldest_age=10**6, alarms=big, unmatched=big, dead=big)
    for streams in (Streams(), Streams(3, 3, 0, big, "a-worker-with-a-name")):
        for lately in (QUIET, replace(QUIET, expired=big)):
            assert all(len(text) <= SHORT_CHARACTERS for text in texts(of, streams, lately))
    assert all(len(text) <= SHORT_CHARACTERS for text in of_group(group(unread=big, oldest_unread_age=1e6, lost=big)))


def test_a_group_that_lags():
    behind = group(unread=500, oldest_unread_age=185.0)
    assert of_group(behind) == ["behind its topic: 500 unread for 3 min 5 s"]
    assert of_group(replace(behind, oldest_unread_age=1.0)) == [], "for a moment"
    assert of_group(replace(behind, members=0, exact=False)) == ["nobody receives: 500+ unread for 3 min 5 s"]
    assert of_group(replace(behind, members=0, ready=3)) == ["nobody receives: 500 unread for 3 min 5 s"], "once"
    assert of_group(replace(behind, paused=True)) == ["paused: it delivers nothing"]
    assert of_group(group(lost=3)) == ["3 lost: deleted before it read them"]


def test_a_group_has_the_problems_of_its_queue():
    one = group(unread=500, oldest_unread_age=185.0, in_flight=2)
    lately = replace(QUIET, expired=4)
    assert of_group(one, Streams(1, full=1, unacked=2, holder="worker 7"), lately) == [
        "behind its topic: 500 unread for 3 min 5 s", "4 leases ran out: worker 7 holds 2 and acked none",
    ]  # fmt: skip


def row(**changed: Any) -> dict[str, Any]:
    known = {"queue": "orders", "database": "shop", "connection_id": 7, "consumer": None, "unacked": 0, "waiting": 0,
             "window_full": 0}  # fmt: skip
    return {**known, **changed}


def test_what_the_streams_of_a_queue_do():
    rows = [
        row(unacked=4, window_full=1, waiting=1, consumer="mailer"), row(waiting=1), row(),
        row(queue="other", unacked=1), row(queue="both", unacked=1), row(queue="both", unacked=1),
    ]  # fmt: skip
    streams = streams_of(rows)
    assert streams[Q] == Streams(3, 1, 1, 4, "mailer")
    assert streams[QueueName("shop", "other")].holder == "connection 7"
    assert streams[QueueName("shop", "both")] == Streams(2, 0, 0, 2, "")


def test_a_minute_that_the_counters_do_not_cover_is_not_whole():
    rates = Rates()
    assert lately_of(rates, Q, 0.0) == Lately(whole_minute=False)
    rates.add(Samples({"a": Sample({})}), 0)
    rates.add(Samples({"a": Sample({Q: [5, 4, 3, 2, 1]})}), 5)
    assert lately_of(rates, Q, 59.0) == Lately(4, 3, 1, whole_minute=False)
    assert lately_of(rates, Q, 60.0) == Lately(4, 3, 1)
