"""The benchmark of steps and the profile, as far as they are arithmetic: costs, threads, stacks, the flame graph."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.harness import Outcome, Series
from benchmarks.measure import MEDIAN
from benchmarks.report import STEPS_BEGIN, STEPS_END, Report
from benchmarks.steps import flame, profile, sockets, stacks
from benchmarks.steps.counters import (
    ALL_THREADS,
    DATABASE_CPU,
    MAIN_THREAD,
    PROXY_CPU,
    ROUND_TRIPS,
    STATEMENTS,
    Counters,
    Thread,
    by_thread,
    costs,
)
from benchmarks.steps.run import delivery

ROOT = Path(__file__).resolve().parent.parent.parent
COLLAPSED = """\
thread (1): main;run (app.py:1);serve (app.py:9);read (app.py:20) 6
thread (1): main;run (app.py:1);serve (app.py:9);write (app.py:30);read (app.py:20) 2
thread (1): main;run (app.py:1);Runner.run (asyncio/runners.py:86) 90
thread (2): store_0;_worker (concurrent/futures/thread.py:69) 70
thread (2): store_0;_worker (concurrent/futures/thread.py:69);ask (store.py:3);ask (store.py:3) 1
thread (2): store_0;_worker (concurrent/futures/thread.py:69);send (store.py:5) 1
"""


def test_what_a_message_costs_is_the_difference_by_the_number_of_messages() -> None:
    before = Counters(0.0, 1.0, 5.0, 100, {7: 10, 8: 5}, {})
    after = Counters(2.0, 1.5, 6.0, 500, {7: 110, 9: 100}, {})
    assert costs(before, after, 1000) == {
        PROXY_CPU: pytest.approx(500),
        DATABASE_CPU: pytest.approx(1000),
        STATEMENTS: pytest.approx(0.4),
        ROUND_TRIPS: pytest.approx(0.2),
    }
    assert costs(Counters(0.0, 1.0), Counters(1.0, 2.0), 1000) == {PROXY_CPU: pytest.approx(1000)}


def test_threads_are_told_apart_and_those_that_slept_on_are_not_shown() -> None:
    before = Counters(0.0, 0.0, threads={1: Thread(1.0, 10), 2: Thread(9.0, 90), 3: Thread(1.0, 5)})
    now = {1: Thread(1.25, 12), 2: Thread(9.0, 90), 3: Thread(1.5, 6), 4: Thread(1.0, 3)}
    found = by_thread(before, Counters(1.0, 0.0, threads=now), main=1, messages=1000)
    assert {name: tuple(values.values()) for name, values in found.items()} == {
        MAIN_THREAD: (pytest.approx(250), pytest.approx(0.002)),
        "thread 2": (pytest.approx(1000), pytest.approx(0.003)),
        "thread 3": (pytest.approx(500), pytest.approx(0.001)),
        ALL_THREADS: (pytest.approx(1750), pytest.approx(0.006)),
    }


def test_delivery_is_what_is_left_of_the_columns_that_all_have() -> None:
    lone = {PROXY_CPU: 100.0, STATEMENTS: 9.0, MEDIAN: 2.0}
    assert delivery(lone, {PROXY_CPU: 20.0, STATEMENTS: 1.0, MEDIAN: 1.0}, {PROXY_CPU: 30.0, MEDIAN: 1.0}) == {
        PROXY_CPU: 50.0
    }


def test_the_kernel_counts_each_write_to_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            before = sockets.writes(os.getpid(), port)
            for _ in range(5):
                client.sendall(b"x" * 1000)
            accepted.sendall(b"the answer does not count")
            after = sockets.writes(os.getpid(), port)
    assert len(before) == 1
    assert sockets.added(before, after) == 5


def test_a_row_without_the_main_column_has_none_invented(tmp_path: Path) -> None:
    through, directly = Series("through", {PROXY_CPU: [100.0]}), Series("directly", {DATABASE_CPU: [50.0]})
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    copy = tmp_path / "benchmarks.md"
    copy.write_text(text)
    Report({}, [], [Outcome("steps", "Steps", PROXY_CPU, [through, directly], ())]).write_into(
        copy, STEPS_BEGIN, STEPS_END
    )
    rows = [re.findall(r"[\w./-]+(?: [\w./-]+)*", line) for line in copy.read_text().splitlines()]
    assert ["through", "100", "100 - 100", "-"] in rows
    assert ["directly", "-", "-", "50.0"] in rows


def test_collapsed_stacks_are_read_and_threads_that_wait_are_left_out() -> None:
    found = stacks.parsed(COLLAPSED)
    assert sum(found.values()) == 170
    busy = stacks.busy(found)
    assert sum(busy.values()) == 10
    assert stacks.own(busy) == {"read (app.py:20)": 8, "ask (store.py:3)": 1, "send (store.py:5)": 1}
    with pytest.raises(ValueError, match="no collapsed stack: 'main;run'"):
        stacks.parsed("main;run")


def test_a_function_includes_what_it_calls_and_a_threads_beginning_is_left_out() -> None:
    found = stacks.inclusive(stacks.busy(stacks.parsed(COLLAPSED)))
    assert found == {
        "read (app.py:20)": 8,
        "write (app.py:30)": 2,
        "ask (store.py:3)": 1,  # once, although it called itself
        "send (store.py:5)": 1,
    }
    assert list(stacks.most(found, 10, 1)) == ["  80.0 %        8  read (app.py:20)"]


def test_the_flame_graph_is_as_wide_as_the_samples() -> None:
    picture = ElementTree.fromstring(flame.svg({("a", "<b>"): 3, ("a", "c"): 1}, "A & B"))
    name = "{http://www.w3.org/2000/svg}"
    boxes = {
        box.findtext(f"{name}title"): (float(rect.attrib["x"]), float(rect.attrib["width"]), int(rect.attrib["y"]))
        for box in picture.iter(f"{name}g")
        if (rect := box.find(f"{name}rect")) is not None
    }
    bottom = flame.HEAD + 2 * flame.ROW
    assert boxes == {
        "all: 4 samples, 100.0 %": (0.0, flame.WIDTH, bottom),
        "a: 4 samples, 100.0 %": (0.0, flame.WIDTH, bottom - flame.ROW),
        "<b>: 3 samples, 75.0 %": (0.0, flame.WIDTH * 3 / 4, bottom - 2 * flame.ROW),
        "c: 1 samples, 25.0 %": (flame.WIDTH * 3 / 4, flame.WIDTH / 4, bottom - 2 * flame.ROW),
    }
    assert "<g>" not in flame.svg({}, "nothing")


def test_without_permission_the_error_says_what_to_do() -> None:
    said = "Error: Permission Denied: Try running again with elevated permissions"
    assert "ptrace_scope" in profile.reason(said) and "SYS_PTRACE" in profile.reason(said)
    assert profile.reason("Error: no such process\n") == "py-spy has failed: Error: no such process"
