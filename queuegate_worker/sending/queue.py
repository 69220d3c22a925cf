"""A queue as an application sees it that sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from queuegate_worker.errors import WorkerError
from queuegate_worker.message import Message
from queuegate_worker.sending import transport
from queuegate_worker.sending.models import Model
from queuegate_worker.sending.rows import Due, Row, current_traceparent
from queuegate_worker.statements import quoted

M = TypeVar("M")
_TRACE_COLUMN = "traceparent"


class Queue(Generic[M]):
    """A queue, `queue` or `database.queue`, or a topic, into which messages are sent.

        orders = Queue("orders")
        orders.send(customer=7, amount=100, connection=db)

    A send is an INSERT on the application's `connection`, in the transaction that is open there: if that is rolled
    back, there is no message. The connection is one of PyMySQL, mysqlclient or mysql-connector, a connection or session
    of SQLAlchemy, Django's, or a function that returns the one whose transaction is open. Without one the message is
    sent, and committed, on a connection of this thread's to QUEUEGATE_URL.

    `model`: a dataclass or pydantic model whose fields are the queue's columns; every payload is checked by it.
    `traces`: fill the queue's column `traceparent` with the current span of OpenTelemetry. Raises WorkerError.
    """

    def __init__(
        self, name: str, model: type[M] | None = None, *, connection: Any = None, traces: bool = False
    ) -> None:
        quoted(name)
        self.name = name
        self._model = None if model is None else Model(model)
        self._connection, self._traces = connection, traces

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def send(
        self,
        payload: M | Mapping[str, Any] | None = None,
        /,
        *,
        connection: Any = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        **columns: Any,
    ) -> int | None:
        """Send one message; its id, if the database numbers messages.

        The payload is an object of the model, or columns by name; columns that are named like an argument of this
        method have to be in the mapping. `delay`: seconds until it is due, or a timedelta; `at`: the time at which it
        is due, with a time zone. A dictionary or list is stored as JSON. Raises WorkerError for an argument that is
        wrong or a value that the database would store as another one, and the errors of the connection's driver.
        """
        rows = [self._row(payload, columns)]
        return transport.current().send(self.name, rows, Due.of(delay, at), self._choose(connection))[0]

    def send_many(
        self,
        payloads: Iterable[M | Mapping[str, Any]],
        /,
        *,
        connection: Any = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
    ) -> int:
        """Send many messages with few statements, of up to 500 rows each; how many. All have the same columns.

        All are checked before the first is sent. Raises as `send`.
        """
        rows = [self._row(payload, {}) for payload in payloads]
        if rows:
            transport.current().send(self.name, rows, Due.of(delay, at), self._choose(connection))
        return len(rows)

    async def send_async(
        self,
        payload: M | Mapping[str, Any] | None = None,
        /,
        *,
        connection: Any = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        **columns: Any,
    ) -> int | None:
        """As `send`, on a connection of asyncio: AsyncSession, AsyncConnection, aiomysql, asyncmy."""
        rows = [self._row(payload, columns)]
        return (await self._transport_async(rows, Due.of(delay, at), connection))[0]

    async def send_many_async(
        self,
        payloads: Iterable[M | Mapping[str, Any]],
        /,
        *,
        connection: Any = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
    ) -> int:
        """As `send_many`, on a connection of asyncio."""
        rows = [self._row(payload, {}) for payload in payloads]
        if rows:
            await self._transport_async(rows, Due.of(delay, at), connection)
        return len(rows)

    def load(self, message: Message) -> M:
        """A message that was received as an object of the model: for handlers.

        Raises Reject if it does not fit the model, so the message becomes a dead letter with the reason; WorkerError if
        the queue has no model.
        """
        if self._model is None:
            raise WorkerError(f"the queue {self.name} has no model: Queue({self.name!r}, Model)")
        return self._model.load(message.columns)

    async def _transport_async(self, rows: Sequence[Row], due: Due, connection: Any) -> list[int | None]:
        return await transport.current().send_async(self.name, rows, due, self._choose(connection))

    def _choose(self, connection: Any) -> Any:
        return self._connection if connection is None else connection

    def _row(self, payload: M | Mapping[str, Any] | None, columns: Mapping[str, Any]) -> Row:
        if payload is not None and columns:
            raise WorkerError("give the message as one payload or as columns, not both")
        values = columns if payload is None else payload
        if self._model is not None:
            row = self._model.columns(values)
        elif isinstance(values, Mapping):
            row = dict(values)
        else:
            raise WorkerError(
                f"a payload is a mapping of columns, not {type(values).__name__}; or give the queue a model"
            )
        if self._traces and _TRACE_COLUMN not in row:
            row[_TRACE_COLUMN] = current_traceparent()
        return row
