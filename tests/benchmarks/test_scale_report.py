"""The benchmark of scale, as far as it is arithmetic: amounts, packets, memory of a receiver, plots, the document."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.harness import Outcome, Series
from benchmarks.report import SCALE_BEGIN, SCALE_END, Report
from benchmarks.scale import bodies, plots, proxies, queues, receivers, waiting
from benchmarks.scale.amounts import QUICK, Amounts, Course, in_turn
from benchmarks.scale.clients import Arriving, Packets, at, row_id
from benchmarks.scale.plots import PLOTS, Plot
from benchmarks.scale.run import PARTS
from benchmarks.scale.sites import idle_columns
from benchmarks.steps.loads import BATCH
from benchmarks.topics.crew import Used

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = "![A lone message, median ms](plots/scale-queues-latency.svg)"


def outcome(part: str, column: str, **series: list[float]) -> Outcome:
    return Outcome(part, part, column, [Series(case, {column: values}) for case, values in series.items()], ())


def measured() -> Report:
    """Two parts; the first has a case less on one of its lines."""
    cases = {"MariaDB, 10 queues": [2.0, 1.0, 9.0], "MariaDB, 1,000 queues": [4.0], "embedded, 1,000 queues": [3.0]}
    rates = {f"MariaDB, {point}": [value] for point, value in (("1 KB", 1.5), ("10 MB", 400.0))}
    found = [outcome(queues.NAME, "median ms", **cases), outcome(bodies.NAME, bodies.MEGABYTES, **rates)]
    return Report({"cpu": "none"}, ["10,000 receivers, for want of files"], found)


def test_quick_is_smaller_in_everything() -> None:
    full = Amounts()
    for field in fields(Amounts):
        small, large = getattr(QUICK, field.name), getattr(full, field.name)
        assert (max(small), len(small)) < (max(large), len(large)) if isinstance(large, tuple) else small < large
    for amounts in (QUICK, full):
        for number in (amounts.first, amounts.enqueued, amounts.drained):
            assert number % BATCH == 0
        assert amounts.first < min(amounts.waiting)


def test_bodies_are_as_many_as_their_size_allows() -> None:
    full = Amounts()
    found = {size: bodies.amount(size, full.body_bytes, full.bodies_most) for size in full.bodies}
    assert found == {1_000: 5_000, 10_000: 5_000, 100_000: 2_000, 1_000_000: 200, 10_000_000: 20}
    assert bodies.amount(10_000_000, 1_000_000, 60) == bodies.FEWEST
    assert [bodies.size_name(size) for size in full.bodies] == ["1 KB", "10 KB", "100 KB", "1 MB", "10 MB"]


def test_each_case_has_its_turn_in_each_repeat() -> None:
    told: list[str] = []
    cases = {"a": lambda repeat: {"x": float(repeat)}, "b": lambda repeat: {"x": 10.0 + repeat}}
    found = in_turn(Course(Amounts(repeats=2), told.append), "part", "title", "x", cases)
    assert [text.rpartition(" ")[2] for text in told] == ["a", "b", "b", "a"]
    assert {series.rival: series.values["x"] for series in found.series} == {"a": [0.0, 1.0], "b": [10.0, 11.0]}


def test_a_case_that_fails_is_left_out_and_named() -> None:
    def fails(repeat: int) -> dict[str, float]:
        if repeat:
            raise AssertionError("the log\nqueuegate ended")
        return {"x": 1.0}

    course = Course(Amounts(repeats=3), lambda progress: None)
    found = in_turn(course, "part", "title", "x", {"a": fails, "b": lambda repeat: {"x": 2.0}})
    assert [(series.rival, series.values["x"]) for series in found.series] == [("b", [2.0, 2.0, 2.0])]
    assert course.left_out == ["part: a, which failed: queuegate ended"]


def test_what_a_receiver_adds_is_taken_within_each_repeat() -> None:
    cases = {"MariaDB, one queue, 10 receivers": [70.0, 71.0], "MariaDB, one queue, 1,010 receivers": [90.0, 101.0]}
    found = outcome(receivers.NAME, receivers.MEMORY, **cases, **{"embedded, one queue, 1,010 receivers": [80.0]})
    receivers.add_memory(found, 10)
    assert [series.values.get(receivers.PER_RECEIVER) for series in found.series] == [None, [20.0, 30.0], None]


def test_the_question_for_the_statements_is_not_one_of_them() -> None:
    before, after = Used(10.0, 1.0, 5.0, 100), Used(20.0, 1.5, 6.0, 121)
    assert idle_columns(before, after, with_server=True) == {
        "idle proxy CPU ms/s": pytest.approx(50),
        "idle server CPU ms/s": pytest.approx(100),
        "idle statements/s": pytest.approx(2),
    }
    inside = idle_columns(Used(0.0, 0.0, 0.0, None), Used(1.0, 0.1, 0.0, None), with_server=False)
    assert list(inside) == ["idle proxy CPU ms/s"]


def test_packets_come_in_any_pieces() -> None:
    sent = b"".join(len(payload).to_bytes(3, "little") + b"\x05" + payload for payload in (b"\x0217\x01x", b"\x0218"))
    for size in range(1, len(sent) + 1):
        read = Packets()
        found = [payload for start in range(0, len(sent), size) for payload in read.whole(sent[start : start + size])]
        assert list(map(row_id, found)) == [17, 18] and read.count == 2


def test_a_stream_that_has_ended_is_no_message() -> None:
    for last in (b"\xfe\x00\x00\x02\x00", b"\xff\x00\x00#HY000gone"):
        with pytest.raises(ConnectionError, match="has ended"):
            row_id(last)
    assert Arriving([])._sockets == {}


def test_clients_are_spread_over_the_proxies() -> None:
    def work(queue: str, what: str) -> plots.Any:
        yield
        return f"{what} at {queue}"

    for number, expected in ((0, "drain at a"), (1, "drain at b"), (2, "drain at a")):
        course = at(["a", "b"], number, work, "drain")
        next(course)
        with pytest.raises(StopIteration) as ended:
            next(course)
        assert ended.value.value == expected


def test_large_backlogs_do_not_lie_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "folder", lambda: tmp_path)
    assert waiting.place(1) == tmp_path
    assert waiting.place(1 << 60) != tmp_path


def test_the_lines_of_a_plot_have_gaps_where_nothing_was_measured() -> None:
    points, lines = plots.lines(PLOTS[0], measured().outcomes[0])
    assert points == ["10 queues", "1,000 queues"]
    assert lines == {"MariaDB": [2.0, 4.0], "embedded": [None, 3.0]}
    two = Plot(proxies.NAME, "x", "x", ("a", "b"))
    both = Outcome(proxies.NAME, "x", "a", [Series("MariaDB, 1 proxy", {"a": [1.0], "b": [2.0]})], ())
    assert plots.lines(two, both)[1] == {"MariaDB, a": [1.0], "MariaDB, b": [2.0]}


def test_a_logarithmic_axis_is_marked_around_its_values() -> None:
    assert plots.ticks([0.18, 54.9]) == [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    assert plots.ticks([1.0]) == [1]


def test_plots_are_pictures_without_scripts_and_the_same_each_time() -> None:
    drawn = {plot.file: picture for plot, picture in plots.draw(measured())}
    assert list(drawn) == ["scale-queues-latency.svg", "scale-bodies-rates.svg"]
    assert drawn == {plot.file: picture for plot, picture in plots.draw(measured())}
    for picture in drawn.values():
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        assert "<script" not in picture and "1,000 queues" in drawn["scale-queues-latency.svg"]


def test_plots_are_of_parts_that_there_are() -> None:
    assert {plot.part for plot in PLOTS} == set(PARTS)
    assert len({plot.file for plot in PLOTS}) == len(PLOTS)


def test_tables_and_plots_go_where_they_belong(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    copy = tmp_path / "benchmarks.md"
    copy.write_text(text)
    again = Report.from_json(measured().as_json())
    plots.write(again, copy, SCALE_BEGIN, SCALE_END)
    head, _, tail = text.partition(SCALE_BEGIN)
    written = copy.read_text()
    assert written.startswith(head) and written.endswith(tail.partition(SCALE_END)[2])
    assert "Left out: 10,000 receivers, for want of files." in written
    assert written.index("| MariaDB, 10 queues") < written.index(LINK) < written.index("**scale-bodies**")
    for file, picture in ((plot.file, picture) for plot, picture in plots.draw(measured())):
        assert (tmp_path / "plots" / file).read_text() == picture


def test_a_document_without_marks_gets_no_plots(tmp_path: Path) -> None:
    document = tmp_path / "other.md"
    document.write_text("nothing")
    with pytest.raises(ValueError, match="there is no"):
        plots.write(measured(), document, SCALE_BEGIN, SCALE_END)
    assert list(tmp_path.iterdir()) == [document]


def test_without_the_library_of_plots_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    with pytest.raises(plots.NoPlots, match="pip install"):
        list(plots.draw(measured()))
