"""What a log has to do to be measured. Logs are frozen values: each client process gets a copy, and connects itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

PAYLOAD = "x" * 200
FILL_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Lone:
    """One message at a time. `receive` waits for the next one and returns what `ack` needs; both have one thread."""

    write: Callable[[], object]
    commit: Callable[[], object]
    receive: Callable[[], Any]
    ack: Callable[[Any], object]


class Measured(Protocol):
    """What logs and queues have in common."""

    @property
    def name(self) -> str:
        """The line of the report."""

    @property
    def pid(self) -> int:
        """The server's process."""

    @property
    def proxy_pid(self) -> int | None:
        """The process before it, where there is one."""

    def fill(self, messages: int) -> None:
        """Make it anew, with so many messages."""

    def lone(self, group: str) -> Lone:
        """Connect a producer and a receiver that waits."""

    def statements(self) -> int | None:
        """How many statements the server has carried out; None where it does not tell."""


class Log(Measured, Protocol):
    """One log (or queue) of one server."""

    def join(self, group: str, messages: int) -> None:
        """Make a group that begins with the first message."""

    def leave(self, group: str) -> None:
        """Drop it."""

    def sender(self) -> Callable[[], object]:
        """Connect; each call of the answer sends one message and returns when it is accepted."""

    def reader(self, group: str, batch: int) -> Iterator[int]:
        """Connect and yield 0; then, again and again, read a batch, ack it and yield how many messages it had."""

    def scanner(self) -> Iterator[int]:
        """Connect and yield 0; then read from the first message on, without acks, and yield how many came."""
