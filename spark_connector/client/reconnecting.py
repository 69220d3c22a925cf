"""A connection that comes back: whoever restarts the proxy or its database does not end a streaming query."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pymysql

from spark_connector.client.connection import DEADLOCK, LOCK_WAIT, Client, number, told
from spark_connector.errors import ConnectionFailed, ConnectorError
from spark_connector.options import Address

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long one call goes on trying: longer than a restart of the proxy, shorter than any lease worth having."""

LOADING_SECONDS = 5.0
"""How long load() goes on trying: somebody waits for it, and may have mistyped the port. A restart takes less."""

READ_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""Locking reads of ranges would otherwise lock the gaps between messages, where producers insert."""

_PAUSE, _PAUSE_MAX = 0.05, 1.0  # seconds
_DENIED = frozenset({1044, 1045, 1049, 1142, 1227})  # trying again would not help
# The connection is of no more use: what the client library says of it itself, and what servers and the proxy say that
# end it, cannot reach their database, or have no room for one more just now.
_OF_THE_LINE = frozenset({0, 2003, 2006, 2013, 2014}) | frozenset(
    {1040, 1042, 1043, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1218, 1290, 1429, 1836}
    | {1927, 3169, 4031}
)
_PASSING = _OF_THE_LINE | {LOCK_WAIT, DEADLOCK}


class ReconnectingClient:
    """Opens its connection when it is first needed, and anew after it broke. Not for several threads; never pickled.

    `settings`: statements that each connection begins with.
    """

    def __init__(
        self,
        address: Address,
        *,
        settings: Sequence[str] = (READ_COMMITTED,),
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address, self._settings, self._patience = address, tuple(settings), patience
        self._clock, self._sleep = clock, sleep
        self._client: Client | None = None

    def run(self, work: Callable[[Client], T]) -> T:
        """What `work` gives. It is done again, from its beginning, if the connection breaks: it must be repeatable.

        Raises:
            ConnectionFailed: it could not be had for `patience` seconds after it broke, or the account is refused.
            ConnectorError: the database refuses a statement.
        """
        deadline, pause = None, _PAUSE
        while True:
            try:
                return work(self._opened())
            except (pymysql.Error, ConnectorError) as error:
                if _of_the_line(error):
                    self.close()
                if deadline is None:  # work may have taken long before
                    deadline = self._clock() + self._patience
                if not _passes(error) or self._clock() + pause > deadline:
                    raise self._in_words(error) from error
            self._sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)

    def add(self, settings: Sequence[str]) -> None:
        """Each connection begins with these statements, too, and the one that is open runs them now. Raises as
        `run`."""
        self._settings = (*self._settings, *settings)
        for setting in settings:
            self.run(partial(_execute, setting=setting))

    def close(self) -> None:
        """Hang up; the next `run` connects again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _opened(self) -> Client:
        if self._client is None:
            client = Client(self._address, sleep=self._sleep)
            for setting in self._settings:
                client.execute(setting)
            self._client = client
        return self._client

    def _in_words(self, error: Exception) -> Exception:
        return told(error, self._address) if isinstance(error, pymysql.Error) else error


def patiently(
    address: Address,
    work: Callable[[Client], T],
    settings: Sequence[str] = (),
    patience: float = PATIENCE_SECONDS,
) -> T:
    """What `work` gives by a connection of its own; done again where that breaks. Raises as `run`."""
    line = ReconnectingClient(address, settings=settings, patience=patience)
    try:
        return line.run(work)
    finally:
        line.close()


@contextmanager
def opened(address: Address, settings: Sequence[str] = ()) -> Iterator[Client]:
    """A connection that is tried for as long; what is done by it afterwards is not repeated. Raises as `run`."""
    line = ReconnectingClient(address, settings=settings)
    try:
        yield line.run(lambda client: client)
    finally:
        line.close()


def _execute(client: Client, setting: str) -> None:
    client.execute(setting)


def _number(error: BaseException) -> int:
    """MySQL's number of an error, also of one that was put into words."""
    cause = error.__cause__ if isinstance(error, ConnectorError) else error
    return number(cause) if isinstance(cause, pymysql.Error) else -1


def _of_the_line(error: BaseException) -> bool:
    """Whether the connection is of no more use."""
    return isinstance(error, ConnectionFailed) or _number(error) in _OF_THE_LINE


def _is_certificate(error: BaseException) -> bool:
    """Whether TLS refused the peer's certificate, which stays as it is."""
    return isinstance(getattr(error, "original_exception", error), ssl.SSLCertVerificationError)


def _passes(error: BaseException) -> bool:
    """Whether it may be over in a while."""
    if isinstance(error, ConnectionFailed):
        return error.__cause__ is not None and not _is_certificate(error.__cause__) and _number(error) not in _DENIED
    return _number(error) in _PASSING
