"""The benchmark of the queue beside others, as far as it is arithmetic: verdicts, clients, the document."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import Outcome, Series
from benchmarks.queues import base, run
from benchmarks.queues.run import Stage
from benchmarks.queues.targets import BY_HAND, EMBEDDED, MARIADB, POSTGRESQL, RABBITMQ, REDIS, queue_targets
from benchmarks.report import RIVALS_BEGIN, RIVALS_END, Report

ROOT = Path(__file__).resolve().parent.parent.parent


def outcome(name: str, column: str, **series: list[float]) -> Outcome:
    return Outcome(name, name, column, [Series(rival, {column: values}) for rival, values in series.items()], ())


def test_ratios_are_taken_within_each_repeat() -> None:
    """The machine became slower in the second repeat, which concerns none of them."""
    one = outcome("rivals-enqueue-1", "messages/s", **{MARIADB: [900, 90, 890], BY_HAND: [1000, 100, 1000]})
    late = outcome("rivals-lone", "median ms", **{MARIADB: [1.6], RABBITMQ: [1.0], EMBEDDED: [1.0]})
    found = list(queue_targets({one.name: one, late.name: late}))
    assert [(target.wanted, target.reached, target.met) for target in found] == [
        (">= 0.9 x MariaDB, SKIP LOCKED by hand", "0.90", True),
        ("<= 1.5 x RabbitMQ, pika", "1.60", False),
        ("<= 1.0 x RabbitMQ, pika", "1.00", True),
    ]


def test_who_is_absent_is_not_judged() -> None:
    alone = outcome("rivals-drain-100", "messages/s", **{MARIADB: [1], EMBEDDED: [1], REDIS: [1]})
    assert list(queue_targets({alone.name: alone})) == []
    with_one = outcome("rivals-drain-100", "messages/s", **{MARIADB: [1], EMBEDDED: [1], POSTGRESQL: [2]})
    assert [target.reached for target in queue_targets({with_one.name: with_one})] == ["0.50", "0.50"]


def test_the_report_goes_between_its_marks(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    copy = tmp_path / "benchmarks.md"
    copy.write_text(text)
    measured = outcome("rivals-lone", "median ms", **{MARIADB: [1.5]})
    Report({"cpu": "none"}, ["Redis, which is absent"], [measured]).write_into(copy, RIVALS_BEGIN, RIVALS_END)
    head, _, tail = text.partition(RIVALS_BEGIN)
    assert copy.read_text().startswith(head) and copy.read_text().endswith(tail.partition(RIVALS_END)[2])
    assert "Left out: Redis, which is absent." in copy.read_text()


class Waiting:
    """A queue of so many messages, of which a receiver takes three at a time."""

    name = "waiting"

    def __init__(self, messages: int) -> None:
        self.messages = messages

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        yield 0
        while self.messages:
            taken = min(3, self.messages)
            self.messages -= taken
            yield taken


def drained(messages: int, waiting: int) -> None:
    left = multiprocessing.get_context("spawn").Value("l", messages)
    course = run.drain(Waiting(waiting), 3, left)
    next(course)
    with pytest.raises(StopIteration):
        next(course)


def test_a_drain_ends_when_all_is_acked() -> None:
    drained(10, 10)


def test_a_drain_that_acks_more_than_there_was_fails() -> None:
    with pytest.raises(AssertionError, match="2 messages were acked twice"):
        drained(7, 9)


def test_a_drain_that_comes_to_no_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUIET_SECONDS", 0.05)
    with pytest.raises(AssertionError, match="waiting: 1 messages are left"):
        drained(10, 9)


def test_what_is_sent_is_counted_in_messages() -> None:
    class Sent:
        def sender(self, messages: int) -> Any:
            return lambda: None

    course = run.enqueue(Sent(), 2, 100, 0.5)
    next(course)
    with pytest.raises(StopIteration) as ended:
        next(course)
    assert ended.value.value > 0 and ended.value.value % 100 == 0


def test_a_database_inside_the_proxy_has_no_cost_of_its_own() -> None:
    inside = SimpleNamespace(name="inside", pid=1, proxy_pid=1)
    server = SimpleNamespace(name="server", pid=2, proxy_pid=1)
    stage = Stage([inside, server], run.QUICK, lambda progress: None)
    costs = {"messages/s": 1.0, "server CPU us/message": 5.0}
    found = stage.outcome("x", "x", "messages/s", lambda rival: costs)
    assert [list(series.values) for series in found.series] == [["messages/s"], list(costs)]


def test_who_polls_sleeps_until_something_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(base.time, "sleep", slept.append)
    answers = iter([[], [], [7]])
    assert base.polled(lambda: next(answers)) == [7]
    assert slept == [base.POLL_SECONDS] * 2
