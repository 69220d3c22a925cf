"""Shared: what the threads of one run have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from queuegate_worker.errors import WorkerError
from queuegate_worker.free_slots import FreeSlots, Pace
from queuegate_worker.heartbeat import InFlight
from queuegate_worker.hooks import Hooks
from queuegate_worker.statements import Statements

Pause = Callable[[float], object]
"""Waits for seconds, or less if the run stops."""


@dataclass(frozen=True, slots=True)
class Shared:
    """See the module. Seconds are those of `clock`.

    `pause`: until the run closes its connections. `pause_receiving`: until it receives no more. `fail` ends the run
    with an error.
    """

    statements: Statements
    hooks: Hooks
    in_flight: InFlight
    free_slots: FreeSlots
    pace: Pace
    clock: Callable[[], float]
    pause: Pause
    pause_receiving: Pause
    fail: Callable[[WorkerError], None]
