"""The benchmark of background jobs, as far as it is arithmetic: verdicts, the producer, what jobs leave behind."""

from __future__ import annotations

import time

import pytest
from toolchains import missing

from benchmarks import marks
from benchmarks.harness import Outcome, Series
from benchmarks.jobs import db_scheduler, producer
from benchmarks.jobs.targets import (
    CELERY_RABBITMQ,
    DJ_QUEUE,
    DJANGO_TASKS_DB,
    DRAINED,
    JOBS,
    MARIADB,
    job_targets,
)
from benchmarks.measure import MEDIAN


def test_what_teams_take_is_compared_within_a_repeat() -> None:
    series = [
        Series(MARIADB, {DRAINED: [500.0, 50.0], MEDIAN: [3.0, 6.0]}),
        Series(DJ_QUEUE, {DRAINED: [100.0, 10.0], MEDIAN: [60.0, 120.0]}),
        Series(DJANGO_TASKS_DB, {DRAINED: [125.0, 12.5], MEDIAN: [27.0, 54.0]}),
        Series(CELERY_RABBITMQ, {DRAINED: [1000.0, 100.0], MEDIAN: [1.0, 2.0]}),
    ]
    found = list(job_targets({JOBS: Outcome(JOBS, JOBS, DRAINED, series, ())}))
    assert [(target.reached, target.met) for target in found] == [
        ("5.0", True),
        ("1/20", True),
        ("4.0", False),
        ("1/9", False),
        ("0.50", False),
    ]
    assert list(job_targets({})) == []


def test_the_producer_enqueues_at_its_pace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[float | None] = []
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr("sys.argv", ["produce", "3", "0"])
    producer.produce(sent.append)
    assert sent == [None, None, None] and not pauses
    monkeypatch.setattr("sys.argv", ["produce", "40", "0.2"])
    producer.produce(sent.append)
    assert len(pauses) == 40 and 0.15 <= min(pauses) < max(pauses) <= 0.25
    assert all(at is not None for at in sent[3:])
    assert all(float(line) >= 0 for line in capsys.readouterr().out.split())


def test_what_jobs_leave_behind(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(marks.FOLDER, str(tmp_path))
    marks.done()
    marks.done()
    marks.took(time.time() - 5)
    assert marks.size(tmp_path, marks.DONE) == 2 and marks.size(tmp_path, marks.READY) == 0
    (sample,) = marks.samples(tmp_path)
    assert 5 <= sample < 65


def test_the_java_program_compiles(tmp_path) -> None:
    try:
        command, versions = db_scheduler.compiled(tmp_path)
    except db_scheduler.Absent as error:
        missing(f"db-scheduler: {error}")
    assert (tmp_path / f"{command[-1]}.class").exists()
    assert versions.startswith(f"{db_scheduler.LIBRARY.version}, Java ")


def test_db_scheduler_is_absent_without_java_or_its_jars(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_scheduler, "find_binary", lambda name: None)
    with pytest.raises(db_scheduler.Absent, match="default-jdk-headless"):
        db_scheduler.compiled(tmp_path)
    monkeypatch.setattr(db_scheduler, "find_binary", lambda name: name)
    monkeypatch.setattr(db_scheduler, "_version", lambda compiler: "17")

    def unreachable(jar: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(db_scheduler, "downloaded", unreachable)
    with pytest.raises(db_scheduler.Absent, match="no route"):
        db_scheduler.compiled(tmp_path)
