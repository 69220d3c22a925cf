"""How far jobs are, from what they leave behind (benchmarks.marks)."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import marks
from tests.servers import wait_until

DRAIN_SECONDS = 600.0
_LOOK_SECONDS = 0.005


def drain_seconds(folder: Path, tasks: int) -> float:
    """From the first task that is done to the last one."""
    wait_until(lambda: marks.size(folder, marks.DONE), 120, "the first task")
    began, deadline = time.monotonic(), time.monotonic() + DRAIN_SECONDS
    while (done := marks.size(folder, marks.DONE)) < tasks:
        assert time.monotonic() < deadline, f"{done} of {tasks} tasks are done"
        time.sleep(_LOOK_SECONDS)
    assert done == tasks, f"{done - tasks} tasks ran twice"
    return max(time.monotonic() - began, _LOOK_SECONDS)


def wait_for_lone(folder: Path, tasks: int, name: str) -> None:
    """Until so many lone tasks have begun."""
    wait_until(lambda: marks.size(folder, marks.TOOK) >= tasks * marks.SAMPLE.size, 60, f"{name}: lone tasks")
