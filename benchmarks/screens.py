"""What ten open screens of the web console cost the queue: a drain and lone messages with them and without, in turns.

Half of the screens show the overview, half a queue. Each asks for its figures again every five seconds, as the page
itself does. The console runs in both kinds of turn; without screens nobody asks it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from statistics import median
from typing import Any

from benchmarks import drain, latency
from benchmarks.measure import Measurement
from benchmarks.places import Place
from tests.servers import DATABASE, Sql
from tests.support.console_browser import Browser, console_port

SCREENS = 10
REFRESH_SECONDS = 5.0
CONFIG: dict[str, Any] = {"console": {"listen": "127.0.0.1:0"}}
"""What the gate of the place needs besides."""

TURNS = 5
ALONE, WATCHED = "no screen", f"{SCREENS} screens"
_DRAINED, _DELIVERED = "drained/s", "median send ms"


def measure(place: Place, messages: int, lone: int, turns: int) -> list[Measurement]:
    """Both, in turns; medians, and of the ratios within a turn the median, the smallest and the largest."""
    port = console_port(place.gate)
    _prepare(place)
    found: dict[str, list[dict[str, float]]] = {ALONE: [], WATCHED: []}
    for turn in range(turns):
        for name in (ALONE, WATCHED) if turn % 2 == 0 else (WATCHED, ALONE):
            with watching(port, SCREENS if name == WATCHED else 0):
                found[name].append(_turn(place, messages, lone))
    return [_line(place, name, messages, values, found[ALONE]) for name, values in found.items()]


def _line(
    place: Place, name: str, messages: int, ours: list[dict[str, float]], alone: list[dict[str, float]]
) -> Measurement:
    values: dict[str, float] = {}
    for column in (_DRAINED, _DELIVERED):
        values[column] = round(median(turn[column] for turn in ours), 2)
        ratios = [mine[column] / theirs[column] for mine, theirs in zip(ours, alone, strict=True)]
        values[f"{column} / alone"] = round(median(ratios), 3)
        values[f"{column} min"], values[f"{column} max"] = round(min(ratios), 3), round(max(ratios), 3)
    return Measurement(name, place.backend, place.durability, drain.BATCH, messages, values)


def _turn(place: Place, messages: int, lone: int) -> dict[str, float]:
    seconds = drain.seconds_to_drain(place, messages)
    return {_DRAINED: messages / seconds, _DELIVERED: latency.through_gate(place, lone)[_DELIVERED]}


@contextlib.contextmanager
def watching(port: int, screens: int) -> Iterator[None]:
    """So many screens, in a process of their own; from when each has loaded its page."""
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=_watch, args=(port, screens, ready, end), daemon=True)
    process.start()
    try:
        assert ready.wait(60), "the screens did not load their pages"
        yield
        assert process.is_alive(), "a screen got no answer"
    finally:
        end.set()
        process.join(30)


def _watch(port: int, screens: int, ready: Event, end: Event) -> None:
    """The screens in turn, so that each is asked for every REFRESH_SECONDS."""
    browsers = [Browser(port) for _ in range(screens)]
    for browser in browsers:
        answer = browser.log_in()
        assert answer.status == 303, answer.text
    ready.set()
    due = time.monotonic()
    while not end.wait(max(0.0, due - time.monotonic())):
        for number, browser in enumerate(browsers):
            page = browser.get("/overview/now") if number % 2 == 0 else _queue(browser)
            assert page.status == 200, page.text
            if end.wait(max(0.0, due + (number + 1) * REFRESH_SECONDS / screens - time.monotonic())):
                return
        due += REFRESH_SECONDS


def _queue(browser: Any) -> Any:
    answer = browser.get("/queue/now", db=DATABASE, name="bench")
    # Between two turns the queue is not there.
    return browser.get("/overview/now") if answer.status == 404 else answer


def _prepare(place: Place) -> None:
    """Twenty more queues, so that the overview has something to count."""
    client = Sql(place.gate.connect())
    for number in range(20):
        client(f"CREATE QUEUE shown_{number} (payload VARCHAR(300))")
        client(f"INSERT INTO shown_{number} (payload) VALUES ('a'), ('b')")
    client.close()
