"""Repeats: a command that the database has rolled back because of another transaction is sent once more.

The engine and a client's ACK, RETRY or the like may deadlock. A client that sends one statement by itself does not
expect that, and nothing of it is applied, so it is repeated here. In a transaction the client has to do it: its earlier
statements are rolled back, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.model.errors import ROLLED_BACK, BackendError
from mysql_wire.answer_walker import parse_err
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, SIZE_MASK
from mysql_wire.status_flags import AUTOCOMMIT, IN_TRANSACTION
from proxy.transport.backend_socket import BackendSocket

REPEATS_MAX = 4
"""Of one command; then the client gets the error. A second conflict in a row is rare already."""

T = TypeVar("T")


def stands_alone(status: int) -> bool:
    """Whether the next statement is a transaction by itself, by the server's status flags."""
    return status & (AUTOCOMMIT | IN_TRANSACTION) == AUTOCOMMIT


class Repeats:
    """The command in progress of a relay, as far as it may be repeated."""

    __slots__ = ("_backend", "_done", "_packet")

    def __init__(self, backend: BackendSocket) -> None:
        self._packet = b""
        self._backend = backend
        self._done = 0

    def begin(self, packet: bytes) -> None:
        """A command is sent. `packet`: what is to be sent again; empty: it may not be repeated."""
        self._packet, self._done = packet, 0

    def sent_again(self, errno: int, status: int, answer: bytes) -> bool:
        """Whether the command was sent once more in place of this error.

        Args:
            errno: the error's number.
            status: the server's flags before the command.
            answer: what was received. Nothing is repeated where a part of the error is still to come.
        """
        may = self._packet and errno in ROLLED_BACK and stands_alone(status) and self._done < REPEATS_MAX
        if not may or not _is_whole(answer):
            return False
        self._done += 1
        self._backend.write(self._packet)
        return True

    def replaced(self, answer: bytes, refused: Callable[[Outcome], bytes]) -> bool:
        """Whether another command was sent in place of this error: what `refused` makes of it (RelayListener). It may
        not be repeated."""
        own = refused(parse_err(answer[HEADER_BYTES:])) if self._packet and _is_whole(answer) else b""
        if own:
            self.begin(b"")
            self._backend.write(own)
        return bool(own)


def _is_whole(answer: bytes) -> bool:
    return len(answer) == HEADER_BYTES + (int.from_bytes(answer[:HEADER_BYTES], "little") & SIZE_MASK)


async def repeated(status: int, run: Callable[[], Awaitable[T]]) -> T:
    """What `run` returns, which carries out one statement of a client's, with several of the proxy's own perhaps.

    Args:
        status: the server's flags before.
        run: must leave no transaction open where it fails.

    Raises:
        BackendError: what it raised last.
    """
    for _ in range(REPEATS_MAX if stands_alone(status) else 0):
        try:
            return await run()
        except BackendError as error:
            if error.errno not in ROLLED_BACK:
                raise
    return await run()
