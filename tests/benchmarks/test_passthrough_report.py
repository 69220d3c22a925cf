"""The benchmark's own arithmetic: ratios within a repeat, quantiles of sysbench's histogram, verdicts, the document."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import sysbench
from benchmarks.harness import Outcome, Sample, Series, turned
from benchmarks.measure import machine
from benchmarks.processes import cpu_seconds, family, peak_bytes, reset_peak, resident_bytes, settled
from benchmarks.report import BEGIN, END, Report
from benchmarks.rivals import DIRECT, HAPROXY, QUEUEGATE
from benchmarks.targets import added_latency, targets
from benchmarks.wire import PACKET_MAX, query
from mysql_wire.packets import frame

HISTOGRAM = """\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.017 |****************************************    50
       0.018 |**********                                  40
       0.300 |*                                           10
SQL statistics:
    queries performed:
        total:                           100
    transactions:                        100    (49.9 per sec.)
    queries:                             300    (149.7 per sec.)
General statistics:
    total time:                          2.0000s
    total number of events:              100
"""


def outcome(name: str, main: str, **rivals: list[float]) -> Outcome:
    names = {"direct": DIRECT, "haproxy": HAPROXY, "queuegate": QUEUEGATE}
    return Outcome(name, name, main, [Series(names[rival], {main: values}) for rival, values in rivals.items()])


def test_ratios_are_those_within_a_repeat() -> None:
    """The machine became four times slower after the first repeat; nobody became better or worse by that."""
    measured = outcome("part", "queries/s", haproxy=[4000, 1000, 1000], queuegate=[3200, 800, 900])
    assert measured.ratio(QUEUEGATE, HAPROXY) == pytest.approx(0.8)
    assert measured.ratio(QUEUEGATE, DIRECT) is None
    assert measured.series[0].median("queries/s") == 1000
    assert measured.series[0].spread("queries/s") == (1000, 4000)


@pytest.mark.parametrize(
    ("release", "told"),
    [("6.18.44-of-a-builder", "6.18"), ("24.5.0", "24.5"), ("11", "11"), ("rolling", "rolling")],
)
def test_a_kernel_is_told_by_its_numbers(monkeypatch: pytest.MonkeyPatch, release: str, told: str) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.release", lambda: release)
    assert machine()["system"] == f"Linux {told}"


def test_everybody_begins_once() -> None:
    assert [turned("abc", repeat)[0] for repeat in range(4)] == ["a", "b", "c", "a"]
    assert sorted(turned("abc", 2)) == ["a", "b", "c"]


def test_sysbench_is_understood() -> None:
    operations, values = sysbench._parsed(HISTOGRAM, "queries/s")
    assert operations == 300
    assert values["queries/s"] == 150
    assert values["median us"] == pytest.approx(17.5)
    assert 295 < values["p99 us"] < 305
    assert sysbench._parsed(HISTOGRAM, "connects/s")[0] == 100
    with pytest.raises(sysbench.SysbenchFailed):
        sysbench._parsed("FATAL: no connection", "queries/s")


def test_added_latency_is_what_is_above_the_direct_way() -> None:
    measured = outcome("loop-bare", "median us", direct=[10, 20, 10], haproxy=[20, 40, 20], queuegate=[22, 40, 21])
    assert added_latency(measured) == (10, 12, pytest.approx(1.1))
    (verdict,) = targets({"loop-bare": measured})
    assert verdict.met and verdict.reached.startswith("1.10")


def test_a_repeat_in_which_haproxy_seems_to_add_nothing_is_left_out() -> None:
    measured = outcome("loop-bare", "median us", direct=[10, 20, 10], haproxy=[9, 40, 20], queuegate=[22, 40, 21])
    assert added_latency(measured) == (15, 15.5, pytest.approx(1.05))
    never = outcome("loop-bare", "median us", direct=[10], haproxy=[9], queuegate=[22])
    assert added_latency(never) is None
    assert not targets({"loop-bare": never})


def test_verdicts() -> None:
    slow = outcome("point_select-8-text", "queries/s", haproxy=[100], queuegate=[79])
    fast = outcome("point_select-8-prepared", "queries/s", haproxy=[100], queuegate=[80])
    large = Outcome("stalled", "", "peak MB", [Series("1 stalled reader of 1 GB, 1 KB rows", {"peak MB": [100.0]})], ())
    found = {
        verdict.what.partition(":")[0]: verdict.met for verdict in targets({o.name: o for o in (slow, fast, large)})
    }
    assert found == {
        "point selects, 8 connections, text": False,
        "point selects, 8 connections, prepared": True,
        "resident memory, 1 stalled reader of 1 GB, 1 KB rows": False,
    }


def test_report_survives_json_and_goes_into_a_document(tmp_path: Path) -> None:
    measured = outcome("point_select-8-text", "queries/s", haproxy=[100, 120], queuegate=[90, 100])
    report = Report({"cpu": "two cores"}, ["sysbench, which is not installed"], [measured])
    again = Report.from_json(report.as_json())
    assert dataclasses.asdict(again) == dataclasses.asdict(report)
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):  # written again, it replaces itself
        again.write_into(document)
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "old" not in text and text.count("two cores") == 1
    assert "| queuegate" in text and "0.87" in text
    document.write_text("no marks")
    with pytest.raises(ValueError, match="measured: begin"):
        again.write_into(document)


def test_processes_are_counted() -> None:
    """A child that works for a while, and then rests until it is told to end."""
    work = "import sys; sum(range(10**7)); x = bytearray(50_000_000); del x; sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE)
    try:
        assert settled([child.pid])
        assert child.pid in family(os.getpid())
        assert cpu_seconds(child.pid) > 0.05
        assert peak_bytes(child.pid) > resident_bytes(child.pid) + 40_000_000
        reset_peak(child.pid)
        assert peak_bytes(child.pid) < resident_bytes(child.pid) + 10_000_000
    finally:
        child.communicate(timeout=20)


def test_cpu_for_each_operation() -> None:
    from benchmarks.harness import Part, _columns

    part = Part("connect-8", "", lambda *_: Sample(0, {}), "connects/s", (), operation="connect")
    assert _columns(part, Sample(200, {"connects/s": 10.0}, 0.1, None)) == {
        "connects/s": 10.0,
        "proxy CPU us/connect": pytest.approx(500),
    }


@pytest.mark.parametrize("size", [0, 100, PACKET_MAX - 1, PACKET_MAX, PACKET_MAX + 5])
def test_statements_are_framed(size: int) -> None:
    assert query("x" * size) == frame(b"\x03" + b"x" * size)
