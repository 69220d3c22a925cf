"""A connection that reconnects: a restart of the proxy or its database does not end a streaming query."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pymysql

from spark_connector.client.connection import DEADLOCK, FRESH, LOCK_WAIT, LOST, NO_VARIABLE, Client, to_connector_error
from spark_connector.errors import ConnectionFailed, ConnectorError
from spark_connector.mysql_client.driver import error_number
from spark_connector.options import Address

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long one call retries: longer than a restart of the proxy, shorter than any useful lease."""

LOADING_SECONDS = 5.0
"""How long load() retries: a user waits for it, and may have mistyped the port. A restart takes less time."""

READ_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""Locking reads of ranges would otherwise lock the gaps between messages, where producers insert."""

_PAUSE, _PAUSE_MAX = 0.05, 1.0  # seconds
_DENIED = frozenset({1044, 1045, 1049, 1142, 1227})  # a retry would not help
_CONNECTION_ERRORS = LOST | {1047, 1290, 1429, 1836}
"""A new connection may lead to another node, which these allow: one without a majority, read-only, or without its own
server does not carry out the statement."""

_TRANSIENT = _CONNECTION_ERRORS | {LOCK_WAIT, DEADLOCK}


class ReconnectingClient:
    """Opens its connection when it is first needed, and again after it broke. Not thread-safe; never pickled.

    `settings`: initial statements of each connection.
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
        """The result of `work`. It is repeated as a whole if the connection breaks, so it must be repeatable.

        Raises:
            ConnectionFailed: no reconnect within `patience` seconds after it broke, or the account is refused.
            ConnectorError: the database refuses a statement.
        """
        deadline, pause = None, _PAUSE
        while True:
            try:
                return work(self._connected())
            except (pymysql.Error, ConnectorError) as error:
                if _is_connection_error(error):
                    self.close()
                if deadline is None:  # work may have run for a long time before
                    deadline = self._clock() + self._patience
                if not _is_transient(error) or self._clock() + pause > deadline:
                    raise self._to_connector_error(error) from error
            self._sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)

    def add(self, settings: Sequence[str]) -> None:
        """Adds initial statements for each connection; an open connection runs them now. Raises as `run`."""
        self._settings = (*self._settings, *settings)
        for setting in settings:
            self.run(partial(_execute, setting=setting))

    def another(self) -> ReconnectingClient:
        """A second one to the same server, with the same initial statements."""
        return ReconnectingClient(self._address, settings=self._settings, patience=self._patience)

    def close(self) -> None:
        """Close the connection; the next `run` connects again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Client:
        if self._client is None:
            client = Client(self._address, sleep=self._sleep)
            for setting in self._settings:
                _execute(client, setting)
            self._client = client
        return self._client

    def _to_connector_error(self, error: Exception) -> Exception:
        return to_connector_error(error, self._address) if isinstance(error, pymysql.Error) else error


def run_with_retries(
    address: Address,
    work: Callable[[Client], T],
    settings: Sequence[str] = (),
    patience: float = PATIENCE_SECONDS,
) -> T:
    """The result of `work` on its own connection; retried if that breaks. Raises as `run`."""
    connection = ReconnectingClient(address, settings=settings, patience=patience)
    try:
        return connection.run(work)
    finally:
        connection.close()


@contextmanager
def open_client(address: Address, settings: Sequence[str] = ()) -> Iterator[Client]:
    """A connection; only the connecting is retried, not what is done with it. Raises as `run`."""
    connection = ReconnectingClient(address, settings=settings)
    try:
        yield connection.run(lambda client: client)
    finally:
        connection.close()


def _execute(client: Client, setting: str) -> None:
    try:
        client.execute(setting)
    except pymysql.Error as error:
        if setting != FRESH or error_number(error) != NO_VARIABLE:
            raise


def _number(error: BaseException) -> int:
    """MySQL's number of an error, also of one that was converted."""
    cause = error.__cause__ if isinstance(error, ConnectorError) else error
    return error_number(cause) if isinstance(cause, pymysql.Error) else -1


def _is_connection_error(error: BaseException) -> bool:
    """Whether the connection can no longer be used."""
    return isinstance(error, ConnectionFailed) or _number(error) in _CONNECTION_ERRORS


def _is_certificate(error: BaseException) -> bool:
    """Whether TLS refused the peer's certificate: a retry would not help."""
    return isinstance(getattr(error, "original_exception", error), ssl.SSLCertVerificationError)


def _is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, ConnectionFailed):
        return error.__cause__ is not None and not _is_certificate(error.__cause__) and _number(error) not in _DENIED
    return _number(error) in _TRANSIENT
