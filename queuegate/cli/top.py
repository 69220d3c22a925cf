"""`queuegate top`: polls the queues again and again, and shows their figures and rates.

A thread of its own polls, so that keys work while a proxy does not answer. A lost connection is shown as lost, with the
last figures, and opened again at every poll.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from queuegate.cli import top_screen
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef
from queuegate.cli.queue_commands import fetch_figures
from queuegate.cli.tables import local_time
from queuegate.cli.top_frame import StyledLine, View, ViewOptions, frame, rows_shown, view_object

_READ_SECONDS = 30
"""A proxy that does not answer for so long is as good as lost."""

_WIDTH, _HEIGHT = 80, 24
"""Of a frame where there is no terminal."""

_SORT_KEYS = {
    "n": "name", "r": "ready", "f": "flight", "l": "later", "d": "dead", "g": "lag", "c": "receivers", "o": "oldest",
    "e": "enqueued", "a": "acked",
}  # fmt: skip


def run(options: argparse.Namespace, target: Target) -> int:
    """Show it until q is pressed, or print frames. A failure at the start is an error; a later one is
    shown."""
    watch = Watch(target, options.names, options.interval)
    watch.poll(strict=True)
    if options.json:
        return _print(watch, options.count, lambda: _object(watch.view, ViewOptions(options.sort)))
    if options.count is not None or not (sys.stdout.isatty() and sys.stdin.isatty()):
        return _print(watch, options.count or 1, lambda: _text(watch.view, ViewOptions(options.sort)))
    watch.start()
    board = Board(watch, ViewOptions(options.sort))
    try:
        top_screen.run(board.draw, board.press)
    except KeyboardInterrupt:
        pass  # as good a way to end it as any
    return 0


def _print(watch: Watch, count: int | None, frame_of: Callable[[], str]) -> int:
    """So many frames, or without end, each an interval after the one before, with the rates between the two. A lost
    proxy may come back, except for the last frame."""
    printed = 0
    while count is None or printed < count:
        time.sleep(watch.interval)
        printed += 1
        watch.poll(strict=printed == count)
        sys.stdout.write(frame_of())
        sys.stdout.flush()
    return 0


def _text(view: View, view_options: ViewOptions) -> str:
    size = shutil.get_terminal_size((_WIDTH, _HEIGHT))
    height = max(size.lines if sys.stdout.isatty() else _HEIGHT, len(view.queues) + 5)
    lines = _framed(view, view_options, size.columns, height)[:-1]
    return "\n".join(line.text for line in lines).rstrip() + "\n"


def _object(view: View, view_options: ViewOptions) -> str:
    return json.dumps(view_object(view, view_options, local_time(time.time_ns())), ensure_ascii=False) + "\n"


class Watch:
    """Polls a proxy. `view` is the current state; it is replaced as a whole, so any thread may read it."""

    def __init__(self, target: Target, names: Sequence[QueueRef], interval: float) -> None:
        self._target = target
        self._names = names
        self.interval = interval
        self._link: Link | None = None
        self.view = View(str(target), interval)

    def start(self) -> None:
        """Go on looking in a thread, which ends with the process."""
        threading.Thread(target=self._poll_forever, name="watch", daemon=True).start()

    def _poll_forever(self) -> None:
        while True:
            time.sleep(self.interval)
            self.poll()

    def poll(self, *, strict: bool = False) -> None:
        """Poll once, and connect first where there is no connection. `strict`: a failure is raised (ConsoleError),
        and a queue that is not there is an error, not left out."""
        try:
            if self._link is None:
                self._link = Link(self._target, "top", _READ_SECONDS)
            self.view = self.view.polled(fetch_figures(self._link, self._names, strict=strict), time.monotonic())
        except (ConsoleError, OSError) as error:
            if strict:
                raise
            link, self._link = self._link, None
            if link is not None:
                link.close()
            self.view = self.view.failed(error.message if isinstance(error, ConsoleError) else str(error))


class Board:
    """What is shown of a watch, and what keys do to it."""

    def __init__(self, watch: Watch, view_options: ViewOptions) -> None:
        self._watch = watch
        self._view_options = view_options

    def draw(self, width: int, height: int) -> Sequence[StyledLine]:
        """A frame of the current state."""
        return _framed(self._watch.view, self._view_options, width, height)

    def press(self, key: str, height: int) -> bool:
        """See top_screen.Press."""
        page = rows_shown(height)
        last = max(0, len(self._watch.view.queues) - page)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, " ": page}
        steps |= {"home": -self._view_options.first, "end": last}
        if key in _SORT_KEYS:
            sort = _SORT_KEYS[key]
            again = sort == self._view_options.sort
            self._view_options = ViewOptions(sort, reverse=again and not self._view_options.reverse)
        elif key in steps:
            self._view_options = replace(
                self._view_options, first=max(0, min(last, self._view_options.first + steps[key]))
            )
        return key not in ("q", "Q")


def _framed(view: View, view_options: ViewOptions, width: int, height: int) -> list[StyledLine]:
    return frame(view, view_options, width, height, time.monotonic(), f"{datetime.now():%H:%M:%S}")
