"""The two kinds of write: staged, where all rows become messages at once or not at all, and direct."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa
import pymysql

from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.client.connection import FRESH, Client, to_connector_error
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import READ_COMMITTED, ReconnectingClient, open_client, run_with_retries
from spark_connector.errors import ConnectionFailed, ConnectorError, OptionError, WriteError
from spark_connector.mysql_client.driver import quoted
from spark_connector.options import Address, WriteOptions
from spark_connector.writing import publish_log, stage
from spark_connector.writing.inserts import non_empty, rows, statements
from spark_connector.writing.plan import WritePlan, plan
from spark_connector.writing.publish_log import LOG, Publication
from spark_connector.writing.stage import Staged

PATIENCE_SECONDS = 60.0  # how long a publication is retried after a lost connection, also in COMMIT
_MODES = "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
_LOCK_WAIT_SECONDS = 50  # MySQL's default; the embedded backend's 5 are too few during a large publication
# A session in strict mode, in UTC, that locks only the rows it writes, and sees what was staged at other nodes.
SETTINGS = (
    f"SET SESSION sql_mode = '{_MODES}', time_zone = '+00:00', innodb_lock_wait_timeout = {_LOCK_WAIT_SECONDS}",
    READ_COMMITTED,
    FRESH,
)
_NONE = Staged(0, 0)
_TABLES = """
SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (%s, %s)"""


class Sink(Protocol):
    """Pickled into each task."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """The rows of a task. Raises WriteError, ConnectionFailed."""

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        """Publishes all rows of a write, from the reports of its tasks. Raises WriteError, ConnectionFailed."""

    def abandon(self, staged: Sequence[Staged]) -> None:
        """The write failed."""


def sink(options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> Sink:
    """The sink for the options; creates its tables. Raises OptionError, SchemaError, QueueError, ConnectionFailed."""
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

    with translated_errors(options.address, f"queue {options.queue}"):
        what = run_with_retries(options.address, planned, SETTINGS)
    sink_class = _DirectSink if options.mode == "direct" else _StagedSink
    return sink_class(options.address, what, options.batch_size)


def define(client: Client, what: WritePlan) -> None:
    """Create the tables of a staged write if missing. If they exist, the account needs no right to create tables."""
    existing = {table for (table,) in client.rows(_TABLES, (LOG, stage.name(what)))}
    if stage.name(what) not in existing:
        stage.define(client, what)
    if LOG not in existing:
        publish_log.define(client)


class _DirectSink:
    """Each statement is a transaction: its rows are messages at once, even if the write fails later."""

    def __init__(self, address: Address, what: WritePlan, batch_size: int) -> None:
        self._address, self._plan, self._batch_size = address, what, batch_size

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := non_empty(batches)) is None:
            return _NONE
        head = f"INSERT INTO {quoted(self._plan.queue)} ({self._plan.names})"
        count = 0
        with connected(self._address, self._plan.label, "rows of earlier statements are in the queue") as client:
            for batch in some:
                texts = rows(batch, self._plan, client.now_ns)
                for text in statements(head, texts, self._plan.on_duplicate, self._batch_size):
                    client.statement(text)
                count += batch.num_rows
        return Staged(0, count)

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        """Nothing to do."""

    def abandon(self, staged: Sequence[Staged]) -> None:
        """Rows in the queue stay there."""


class _StagedSink:
    """Writes through a stage table. See `stage` and `publish_log`."""

    def __init__(self, address: Address, what: WritePlan, batch_size: int) -> None:
        self._address, self._plan, self._batch_size = address, what, batch_size

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := non_empty(batches)) is None:
            return _NONE
        attempt = stage.Attempt(self._plan, self._batch_size)
        with translated_errors(self._address, self._plan.label), pool.pooled(self._address, SETTINGS) as connection:
            try:
                for batch in some:
                    attempt.put(connection, batch)
            except ConnectionFailed:
                raise  # without a connection the rows cannot be deleted either: they are deleted by age
            except BaseException:
                best_effort(lambda: attempt.forget(connection))
                raise
            return attempt.staged

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        with_rows = [one for one in staged if one.count]
        if with_rows or what.named:
            publish(
                self._address, self._plan.label, self._plan.queue, what, sum(one.count for one in with_rows),
                lambda client: stage.copy(client, self._plan, with_rows), keyed=bool(self._plan.key),
            )  # fmt: skip
        if with_rows:
            self.abandon(with_rows)

    def abandon(self, staged: Sequence[Staged]) -> None:
        best_effort(lambda: self._clean(staged))

    def _clean(self, staged: Sequence[Staged]) -> None:
        with connected(self._address, self._plan.label) as client:
            clean(client, self._plan, staged)


def publish(
    address: Address,
    label: str,
    log: str,
    what: Publication,
    rows: int,
    copy: Callable[[Client], int],
    *,
    keyed: bool = False,
) -> None:
    """Have `copy` create messages from `rows` rows, in one transaction with a row in the log. Retried after a lost
    connection: the log shows whether it was done. `log`: the queue's name there. `keyed`: rows may exist already.
    Raises WriteError, ConnectionFailed."""

    def once(client: Client) -> None:
        now = client.now_ns()
        if publish_log.begin(client, log, what, now, rows, keyed=keyed):
            publish_log.record(client, log, what, copy(client), now)

    connection = ReconnectingClient(address, settings=SETTINGS, patience=PATIENCE_SECONDS)
    try:
        connection.run(lambda client: client.transaction(lambda: once(client)))
    except ConnectionFailed as error:
        raise ConnectionFailed(
            f"{error}; whether the rows were published, {LOG} tells: it has the row ({log}, "
            f"{what.writer}) with version {what.version} if they were"
        ) from error
    except ConnectorError as error:
        raise _refusal(error, label, _NOTHING) from error.__cause__
    finally:
        connection.close()


def clean(client: Client, what: WritePlan, staged: Sequence[Staged]) -> None:
    """Delete what was staged, and some rows that other writers have left."""
    stage.forget(client, what, [one.attempt for one in staged])
    now = client.now_ns()
    stage.sweep(client, what, now)
    publish_log.sweep(client, now)


_NOTHING = "nothing of this write is published"


@contextmanager
def connected(address: Address, label: str, consequence: str = _NOTHING) -> Iterator[Client]:
    """A connection for writing. `consequence`: added to the error if the database refuses a row."""
    with translated_errors(address, label, consequence), open_client(address, SETTINGS) as client:
        yield client


@contextmanager
def translated_errors(address: Address, label: str, consequence: str = _NOTHING) -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        raise _refusal(to_connector_error(error, address), label, consequence) from error
    except ConnectorError as error:
        raise _refusal(error, label, consequence) from error.__cause__


def _refusal(error: Exception, label: str, consequence: str) -> Exception:
    """The database's error for a row as an error of the write."""
    return WriteError(f"{label}: {error}; {consequence}") if type(error) in (ConnectorError, WriteError) else error


def best_effort(work: Callable[[], None]) -> None:
    """Ignores errors: what is not cleaned now is deleted by age."""
    try:
        work()
    except (pymysql.Error, ConnectorError):
        pass
