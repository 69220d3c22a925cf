"""Deadlines that grow with what else the machine has to do."""

from __future__ import annotations

import pytest
import slowness
from slowness import MOST, Deadline, of_load


@pytest.mark.parametrize(
    ("loadavg", "processors", "times"),
    [
        ("0.10 3.11 3.53 1/512 11098", 2, 1.0),
        ("20.00 9.00 4.00 2/512 11098", 2, 10.0),
        ("1.00 1.00 1.00 16/512 11098", 2, 8.0),  # the load has only begun
        ("900.00 1.00 1.00 2/512 11098", 2, MOST),
        ("4.0", 2, 2.0),  # a system without /proc
    ],
)
def test_they_are_as_many_times_longer_as_processors_are_wanted(loadavg, processors, times):
    assert of_load(loadavg, processors) == times


def test_a_deadline_grows_while_it_is_waited_for(monkeypatch):
    now = 1.0
    monkeypatch.setattr(slowness, "slowness", lambda: now)
    deadline = Deadline(10)
    assert not deadline.passed(9) and deadline.passed(11)
    now = 3.0
    assert not deadline.passed(29)
    now = 1.0
    assert not deadline.passed(29), "the busy moment is over, and what it cost is not"
    assert deadline.passed(31)
    assert deadline.told == "10 s, 3.0 times as long as the machine is busy"
