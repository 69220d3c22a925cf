"""The two ways into a queue: staged, where all of a write's rows become messages at once or not at all, and direct."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa
import pymysql

from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client, quoted, told
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import READ_COMMITTED, ReconnectingClient, opened, patiently
from spark_connector.errors import ConnectionFailed, ConnectorError, OptionError, WriteError
from spark_connector.options import Address, WriteOptions
from spark_connector.writing import publish_log, stage
from spark_connector.writing.inserts import begun, rows, statements
from spark_connector.writing.plan import WritePlan, plan
from spark_connector.writing.publish_log import LOG, Publication
from spark_connector.writing.stage import Staged

PATIENCE_SECONDS = 60.0  # so long a publication is tried again where the connection was lost, be it in COMMIT
_MODES = "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
_LOCK_WAIT_SECONDS = 50  # MySQL's own; the embedded backend's 5 are few beside a large publication
# A session that is strict, in UTC, and locks no more than it writes.
SETTINGS = (
    f"SET SESSION sql_mode = '{_MODES}', time_zone = '+00:00', innodb_lock_wait_timeout = {_LOCK_WAIT_SECONDS}",
    READ_COMMITTED,
)
_NONE = Staged(0, 0)
_TABLES = """
SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (%s, %s)"""


class Sink(Protocol):
    """Pickled into each task."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """The rows of a task. Raises WriteError, ConnectionFailed."""

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        """All rows of a write, as those that wrote them reported. Raises WriteError, ConnectionFailed."""

    def abandon(self, staged: Sequence[Staged]) -> None:
        """The write failed."""


def sink(options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> Sink:
    """What the options ask for, its tables made. Raises OptionError, SchemaError, QueueError, ConnectionFailed."""
    if overwrite:
        raise OptionError(
            f"{options.queue} cannot be overwritten: write with mode('append') or outputMode('append'); "
            "TRUNCATE QUEUE empties a queue"
        )

    def planned(client: Client) -> WritePlan:
        what = plan(describe(client, options.queue), fields, options.key)
        if options.mode == "staged":
            define(client, what)
        return what

    with in_words(options.address, f"queue {options.queue}"):
        what = patiently(options.address, planned, SETTINGS)
    way = _Direct if options.mode == "direct" else _Through
    return way(options.address, what, options.batch_size)


def define(client: Client, what: WritePlan) -> None:
    """Make the tables of a staged write. Where they are, an account needs no right to make any."""
    there = {table for (table,) in client.rows(_TABLES, (LOG, stage.name(what)))}
    if stage.name(what) not in there:
        stage.define(client, what)
    if LOG not in there:
        publish_log.define(client)


class _Direct:
    """Each statement is a transaction: its rows are messages as soon as it is done, whatever becomes of the write."""

    def __init__(self, address: Address, what: WritePlan, batch_size: int) -> None:
        self._address, self._plan, self._batch_size = address, what, batch_size

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := begun(batches)) is None:
            return _NONE
        head = f"INSERT INTO {quoted(self._plan.queue)} ({self._plan.names})"
        count = 0
        with connected(self._address, self._plan.called, "rows of earlier statements are in the queue") as client:
            for batch in some:
                texts = rows(batch, self._plan, client.now_ns)
                for text in statements(head, texts, self._plan.on_duplicate, self._batch_size):
                    client.statement(text)
                count += batch.num_rows
        return Staged(0, count)

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        """Nothing is left to do."""

    def abandon(self, staged: Sequence[Staged]) -> None:
        """What is in the queue stays there."""


class _Through:
    """Through a stage table. See `stage` and `publish_log`."""

    def __init__(self, address: Address, what: WritePlan, batch_size: int) -> None:
        self._address, self._plan, self._batch_size = address, what, batch_size

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := begun(batches)) is None:
            return _NONE
        attempt = stage.Attempt(self._plan, self._batch_size)
        with in_words(self._address, self._plan.called), pool.kept(self._address, SETTINGS) as line:
            try:
                for batch in some:
                    attempt.put(line, batch)
            except ConnectionFailed:
                raise  # whoever cannot put rows cannot delete any: they go by their age
            except BaseException:
                if_possible(lambda: attempt.forget(line))
                raise
            return attempt.staged

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        with_rows = [one for one in staged if one.count]
        if with_rows or what.named:
            publish(
                self._address, self._plan.called, self._plan.queue, what, sum(one.count for one in with_rows),
                lambda client: stage.copy(client, self._plan, with_rows), keyed=bool(self._plan.key),
            )  # fmt: skip
        if with_rows:
            self.abandon(with_rows)

    def abandon(self, staged: Sequence[Staged]) -> None:
        if_possible(lambda: self._clean(staged))

    def _clean(self, staged: Sequence[Staged]) -> None:
        with connected(self._address, self._plan.called) as client:
            clean(client, self._plan, staged)


def publish(
    address: Address,
    called: str,
    log: str,
    what: Publication,
    rows: int,
    copy: Callable[[Client], int],
    *,
    keyed: bool = False,
) -> None:
    """Have `copy` make messages of so many rows, in one transaction with a row in the log; again after a lost
    connection, where the log tells whether it was done. `log`: where it is noted. `keyed`: rows may be there already.
    Raises WriteError, ConnectionFailed."""

    def once(client: Client) -> None:
        now = client.now_ns()
        if publish_log.begin(client, log, what, now, rows, keyed=keyed):
            publish_log.record(client, log, what, copy(client), now)

    line = ReconnectingClient(address, settings=SETTINGS, patience=PATIENCE_SECONDS)
    try:
        line.run(lambda client: client.transaction(lambda: once(client)))
    except ConnectionFailed as error:
        raise ConnectionFailed(
            f"{error}; whether the rows were published, {LOG} tells: it has the row ({log}, "
            f"{what.writer}) with version {what.version} if they were"
        ) from error
    except ConnectorError as error:
        raise _refusal(error, called, _NOTHING) from error.__cause__
    finally:
        line.close()


def clean(client: Client, what: WritePlan, staged: Sequence[Staged]) -> None:
    """Delete what was staged, and a little of what others have left."""
    stage.forget(client, what, [one.attempt for one in staged])
    now = client.now_ns()
    stage.sweep(client, what, now)
    publish_log.sweep(client, now)


_NOTHING = "nothing of this write is published"


@contextmanager
def connected(address: Address, called: str, so: str = _NOTHING) -> Iterator[Client]:
    """A connection for writing. `so`: what it means if the database refuses a row."""
    with in_words(address, called, so), opened(address, SETTINGS) as client:
        yield client


@contextmanager
def in_words(address: Address, called: str, so: str = _NOTHING) -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        raise _refusal(told(error, address), called, so) from error
    except ConnectorError as error:
        raise _refusal(error, called, so) from error.__cause__


def _refusal(error: Exception, called: str, so: str) -> Exception:
    """What the database says of a row, as an error of the write."""
    return WriteError(f"{called}: {error}; {so}") if type(error) in (ConnectorError, WriteError) else error


def if_possible(work: Callable[[], None]) -> None:
    """What is not cleaned now is cleaned by age."""
    try:
        work()
    except (pymysql.Error, ConnectorError):
        pass
