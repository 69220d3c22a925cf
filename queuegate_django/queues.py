"""The SQL that is sent about queues: create them, insert tasks, read the row of one task, put dead letters back.

All of it goes over Django's own connection, so it is part of the transaction that is open there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections

from queuegate_django.options import DEAD, Options
from queuegate_worker import Queue
from queuegate_worker.mysql_client.driver import error_number
from queuegate_worker.statements import quoted

_STREAMED = ("id", "task_id", "task", "args", "run_after", "enqueued_at", "traceparent", "priority", "failed_attempts")
"""What a worker receives besides the attempt's number: all that it needs to run a task without a query."""

_COLUMNS = (
    "task_id CHAR(32) NOT NULL",
    "task VARCHAR(255) NOT NULL",
    "args JSON NOT NULL",
    "run_after DATETIME(6)",
    "enqueued_at DATETIME(6) NOT NULL",
    "traceparent VARCHAR(55)",
    "priority TINYINT NOT NULL DEFAULT 0",
    "UNIQUE KEY task_id (task_id)",
)
"""`task_id` is the random part of a result's id: `id` may be used again after a queue was dropped. Times are UTC."""

TASK_CHARACTERS = 255
"""The longest import path of a task."""

_READ = ("task", "args", "priority", "run_after", "enqueued_at", "failed_attempts", "last_error")
_STATE = (
    "CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN time_next = 9223372036854775806 THEN 'rejected'"
    " WHEN time_next %% 1000 IN (1, 3)"
    " AND time_next > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000 THEN 'in flight'"
    " ELSE 'waiting' END"
)
"""The state of a message, by docs/message_lifecycle.md: of a lease, `time_next` ends in 001 or 003.
UNIX_TIMESTAMP(NOW()) would be an hour off in autumn, in a time zone whose clocks go back."""

NO_SUCH_TABLE = 1146
_NO_SUCH_COLUMN, _SYNTAX, _NO_QUEUE = 1054, 1064, 1347


def missing(database: str) -> str:
    """What to do if a queue is not there. `migrate` alone makes nothing in another database than the default one."""
    if database == DEFAULT_DB_ALIAS:
        return "run `manage.py migrate`, or `manage.py queuegate_tasks --create`"
    return f"run `manage.py migrate --database {database}`"


class NoQueuegate(Exception):
    """The database does not know the statements of queues; the text says what to do."""

    def __init__(self, database: str) -> None:
        super().__init__(
            f"the database {database!r} is not queuegate: DATABASES[{database!r}] has to name the host and port of a"
            " proxy, such as 127.0.0.1 and 3307"
        )


class NotAQueue(Exception):
    """A table has the queue's name."""


def check_proxy(database: str) -> None:
    """Raises NoQueuegate."""
    with connections[database].cursor() as cursor:
        try:
            cursor.execute("SHOW QUEUES")
        except DatabaseError as error:
            raise _translated(error, database) from error


def create_statement(options: Options, queue_name: str) -> tuple[str, list[str | int]]:
    """The statement that creates a queue, and its values."""
    with_options = {**options.queue_options, "message_cols": "|".join(_STREAMED)}
    settings = ", ".join(f"{name} = %s" for name in with_options)
    name = quoted(options.table(queue_name))
    return f"CREATE QUEUE {name} ({', '.join(_COLUMNS)}) WITH ({settings})", [*with_options.values()]


def create_if_missing(options: Options, queue_name: str) -> bool:
    """Create a queue; whether it was missing. Raises NoQueuegate, NotAQueue."""
    with connections[options.database].cursor() as cursor:
        try:
            cursor.execute(f"SHOW CREATE QUEUE {quoted(options.table(queue_name))}")
        except DatabaseError as error:
            if error_number(error) != NO_SUCH_TABLE:
                raise _translated(error, options.database) from error
        else:
            return False
        cursor.execute(*create_statement(options, queue_name))
        return True


def _translated(error: Any, database: str) -> BaseException:
    if error_number(error) == _SYNTAX:
        return NoQueuegate(database)
    if error_number(error) == _NO_QUEUE:
        return NotAQueue(f"{error.args[-1]}: choose another prefix in OPTIONS")
    return cast(BaseException, error)


def insert(options: Options, queue_name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert tasks, which have the same columns."""
    queue = Queue[Any](options.table(queue_name), traces=options.traces)
    try:
        queue.send_many(rows, connection=connections[options.database])
    except DatabaseError as error:
        if error_number(error) == NO_SUCH_TABLE:
            error.add_note(f"There is no queue of that name: {missing(options.database)}.")
        raise


def message_row(options: Options, queue_name: str, task_id: str) -> dict[str, Any] | None:
    """The row of a task in its queue; `state` is `waiting`, `in flight`, `rejected` or `acked`."""
    return _row(options, options.table(queue_name), (*_READ, "epoch", "lease_token"), _STATE, task_id)


def dead_letter_row(options: Options, queue_name: str, task_id: str) -> dict[str, Any] | None:
    """The row of a task in the dead-letter queue, which exists from the first dead letter on."""
    return _row(options, options.table(queue_name) + DEAD, (*_READ, "attempts"), "'dead'", task_id)


def _row(options: Options, table: str, columns: Sequence[str], state: str, task_id: str) -> dict[str, Any] | None:
    query = f"SELECT {', '.join(columns)}, {state} AS state FROM {quoted(table)} WHERE task_id = %s"
    with connections[options.database].cursor() as cursor:
        try:
            cursor.execute(query, [task_id])
        except DatabaseError as error:
            if error_number(error) in (NO_SUCH_TABLE, _NO_SUCH_COLUMN):
                return None
            raise
        row = cursor.fetchone()
    return None if row is None else dict(zip((*columns, "state"), row, strict=True))


def unacked(options: Options, queue_name: str, task_ids: Sequence[str]) -> set[str]:
    """Those of these tasks whose message is in the queue, and not acked."""
    of_tasks = f"task_id IN ({', '.join(['%s'] * len(task_ids))}) AND time_acked IS NULL"
    with connections[options.database].cursor() as cursor:
        try:
            cursor.execute(f"SELECT task_id FROM {quoted(options.table(queue_name))} WHERE {of_tasks}", [*task_ids])
        except (DatabaseError, ValueError) as error:  # ValueError: no queue of this prefix has that name
            if isinstance(error, ValueError) or error_number(error) == NO_SUCH_TABLE:
                return set()
            raise
        return {str(row[0]) for row in cursor.fetchall()}


def redrive(options: Options, queue_name: str, task_ids: Sequence[str]) -> list[str]:
    """Put those of these tasks that are dead letters back into their queue; their ids. Called in a transaction."""
    dead, several = quoted(options.table(queue_name) + DEAD), ", ".join(["%s"] * len(task_ids))
    with connections[options.database].cursor() as cursor:
        try:
            # One that is acked stays for a while.
            of_tasks = f"task_id IN ({several}) AND time_acked IS NULL"
            cursor.execute(f"SELECT task_id FROM {dead} WHERE {of_tasks} FOR UPDATE", [*task_ids])
        except DatabaseError as error:
            if error_number(error) == NO_SUCH_TABLE:
                return []
            raise
        dead_ids = [str(row[0]) for row in cursor.fetchall()]
        if dead_ids:
            cursor.execute(f"REDRIVE {dead} WHERE task_id IN ({', '.join(['%s'] * len(dead_ids))})", dead_ids)
    return dead_ids


def counts(options: Options, queue_name: str) -> dict[str, int] | None:
    """How many messages a queue has, by state; None where there is no such queue. Raises NoQueuegate."""
    states = ("ready", "scheduled", "retrying", "in_flight", "dead")
    with connections[options.database].cursor() as cursor:
        try:
            cursor.execute(
                f"SELECT {', '.join(states)} FROM queuegate.queues WHERE queue = %s AND db = DATABASE()",
                [options.table(queue_name)],
            )
        except DatabaseError as error:
            raise NoQueuegate(options.database) from error
        row = cursor.fetchone()
    return None if row is None else dict(zip(states, map(int, row), strict=True))


def receivers_of(failed_attempts: str | bytes | None) -> dict[int, str]:
    """The names of the receivers of earlier attempts, by the attempt's number, as far as the row has them."""
    try:
        attempts = json.loads(failed_attempts or "[]")
        return {int(each["attempt"]): str(each.get("receiver") or "") for each in attempts}
    except (ValueError, TypeError, KeyError):
        return {}  # another program wrote the column
