"""The fast path: a command from the client's socket callback to the server's socket and back, no task between."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from proxy.wire.answer_walker import SHAPES, Shape
from proxy.wire.outcome import Outcome


class FastPath(Enum):
    """Whether a command may take the fast path. RELAY_AND_TELL: and how it ends must be told, though it ends as the
    last one did."""

    REFUSE = "refuse"
    RELAY = "relay"
    RELAY_AND_TELL = "relay and tell"


Decide = Callable[[int, bytes], FastPath]
"""From a command and the whole packet it stands in."""

OnAnswer = Callable[[int, Outcome], None]
"""Told how a command of the fast path has ended."""

FAST_COMMAND_MAX_BYTES = 64 * 1024  # one read of the socket; a larger command is written with back-pressure
FAST_COMMANDS = frozenset(command for command, shape in SHAPES.items() if shape is Shape.RESULT)
