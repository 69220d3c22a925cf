"""The fast path: a command from the client's socket callback to the server's socket and back, no task between."""

from __future__ import annotations

from enum import Enum

from mysql_wire.answer_walker import SHAPES, Shape
from mysql_wire.outcome import Outcome


class FastPath(Enum):
    """Whether a command may take the fast path. RELAY_AND_REPORT: and its end must be reported, though it ends as the
    last one did."""

    REFUSE = "refuse"
    RELAY = "relay"
    RELAY_AND_REPORT = "relay and report"


FAST_COMMAND_MAX_BYTES = 64 * 1024  # one read of the socket; a larger command is written with back-pressure
FAST_COMMANDS = frozenset(command for command, shape in SHAPES.items() if shape is Shape.RESULT)


class RelayListener:
    """What a relay asks and notifies: the connection of its client, or a layer between the two. This one allows no fast
    path and ignores what is reported."""

    @property
    def client_stays(self) -> bool:
        """Whether the client goes on where the connection to the server is lost, as one that receives a stream does."""
        return False

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        """Whether a command may take the fast path; `packet` is the whole packet that contains it. Bytes are the packet
        that is to be sent in its place, and its end must be reported. Must not raise."""
        return FastPath.REFUSE

    def refused(self, error: Outcome) -> bytes:
        """The server refuses what was sent in the place of a command of the fast path: the packet that is to be sent
        next, before the client gets an answer; empty where it is to get this error."""
        return b""

    def relayed(self, command: int, outcome: Outcome) -> None:
        """A command of the fast path has ended, and not just as the one before."""

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        """The connection to the server is lost. `reset`: by a TCP reset."""

    def on_closing_error(self, packet: bytes) -> None:
        """The error that the server has sent without a command, before it closes the connection."""
