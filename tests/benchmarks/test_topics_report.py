"""The benchmark of topics, as far as it is arithmetic: costs, verdicts, who takes part, the document."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import others
from benchmarks.harness import Outcome, Series
from benchmarks.report import TOPICS_BEGIN, TOPICS_END, Report
from benchmarks.topics import crew, targets
from benchmarks.topics.crew import Finished, Used
from benchmarks.topics.groups import CASES
from benchmarks.topics.targets import topic_targets

ROOT = Path(__file__).resolve().parent.parent.parent


def outcome(name: str, column: str, **series: list[float]) -> Outcome:
    return Outcome(name, name, column, [Series(rival, {column: values}) for rival, values in series.items()], ())


def test_what_a_message_costs() -> None:
    before, after = Used(10.0, 1.0, 5.0, 100), Used(12.0, 1.5, 6.0, 500)
    assert Finished([], before, after).columns(1000) == {
        "messages/s": 500,
        "proxy CPU us/message": pytest.approx(500),
        "server CPU us/message": pytest.approx(1000),
        "statements/message": pytest.approx(0.4),
    }
    alone = Finished([], Used(0.0, None, 0.0, None), Used(1.0, None, 0.5, None))
    assert alone.columns(10, "row") == {"rows/s": 10, "server CPU us/row": pytest.approx(50_000)}


def test_a_lower_and_an_upper_bound() -> None:
    topic = targets.TOPIC
    fast = outcome("topic-groups-1-1000", "messages/s", **{topic: [30_000, 10, 40_000]})
    slow = outcome("topic-groups-3-1000", "messages/s", **{topic: [59_999]})
    late = outcome("topic-lone", "median ms", **{topic: [2.01]})
    other = outcome("topic-groups-1-100", "messages/s", **{topic: [1]})
    found = topic_targets({one.name: one for one in (fast, slow, late, other)})
    assert [(one.wanted, one.reached, one.met) for one in found] == [
        (">= 30,000 messages/s", "30,000 messages/s", True),
        (">= 60,000 messages/s", "59,999 messages/s", False),
        ("<= 2 ms", "2.01 ms", False),
    ]


def test_a_part_without_the_row_that_is_judged_has_no_verdict() -> None:
    assert topic_targets({"topic-replay": outcome("topic-replay", "rows/s", another=[1])}) == []


def test_what_sleeping_groups_cost_is_taken_within_each_turn() -> None:
    """The machine became slower in the second turn; the groups cost nothing in any."""
    none, asleep, read, many = CASES
    measured = outcome(
        "topic-sleepers", "messages/s", **{none: [1000, 500], asleep: [1000, 500], read: [400, 200], many: [380, 190]}
    )
    found = topic_targets({"topic-sleepers": measured})
    assert [(one.reached, one.met) for one in found] == [("0.0 %", True), ("5.0 %", False)]
    assert {name for pair in targets.SLEEPING for name in pair} == set(CASES)


def test_every_seek_is_judged() -> None:
    measured = outcome("topic-seek", "first delivery ms", EARLIEST=[1000.0], last=[1001.0])
    found = topic_targets({"topic-seek": measured})
    assert [(one.met, one.reached) for one in found] == [(True, "1,000 ms"), (False, "1,001 ms")]
    assert all("10,000,000" in one.wanted for one in found)


def test_the_report_goes_between_the_marks_of_topics(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert text.index(TOPICS_BEGIN) < text.index(TOPICS_END)
    copy = tmp_path / "benchmarks.md"
    copy.write_text(text)
    measured = outcome("topic-lone", "median ms", **{targets.TOPIC: [1.5]})
    Report({"cpu": "none"}, ["Redis, which is absent"], [measured]).write_into(copy, TOPICS_BEGIN, TOPICS_END)
    head, _, tail = text.partition(TOPICS_BEGIN)
    assert copy.read_text().startswith(head) and copy.read_text().endswith(tail.partition(TOPICS_END)[2])
    assert "Left out: Redis, which is absent." in copy.read_text()


def test_who_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "_program", lambda name: None if name == "redis-server" else name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    kinds = (others.REDIS, others.RABBITMQ_STREAMS, others.POSTGRESQL)
    with others.others(dict.fromkeys(kinds, str)) as found:
        assert found.found == []
        assert found.absent == [
            "Redis, whose redis-server is not installed (apt-get install redis-server)",
            "RabbitMQ, whose Python client rstream is not installed (pip install '.[rivals]')",
            "PostgreSQL, whose Python client psycopg is not installed (pip install '.[rivals]')",
        ]


def test_a_server_that_does_not_start_is_absent_and_the_others_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(folder: Path, stack: contextlib.ExitStack) -> Any:
        (folder / "output").write_text("no room on the disk")
        others._until(folder, "ready")

    def ready(folder: Path, stack: contextlib.ExitStack) -> Any:
        return others.Server(1, 2, "1.0")

    monkeypatch.setattr(others, "START_SECONDS", 0.1)
    kinds = (others.Kind("A", (), "sys", "a", silent), others.Kind("B", (), "sys", "b", ready))
    with others.others({kind: lambda server: server.port for kind in kinds}) as found:
        assert (found.found, found.versions) == ([1], {"B": "1.0"})
        assert len(found.absent) == 1 and found.absent[0].endswith("its last words: no room on the disk")


def _adds(log: Any, number: int) -> Any:
    yield
    return log.base + number


def _fails(log: Any) -> Any:
    yield
    raise ValueError("of the client")


def _log() -> Any:
    """A server that is this process."""
    return SimpleNamespace(base=10, pid=os.getpid(), proxy_pid=None, statements=int)


def test_clients_are_processes_whose_results_are_collected() -> None:
    done = crew.run(_log(), _adds, [(1,), (2,)])
    assert sorted(done.results) == [11, 12]
    assert done.before.at <= done.after.at and done.after.server_cpu >= done.before.server_cpu > 0


def test_a_client_that_fails_is_told_with_its_traceback() -> None:
    with pytest.raises(crew.ClientFailed, match="ValueError: of the client"):
        crew.run(_log(), _fails, [()])
