"""What tasks need in the database: a queue for their messages, a schedule for each periodic task, a table of results.

Statements are texts with `%s` and their values, as everywhere in the worker. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from queuegate_worker.errors import WorkerError
from queuegate_worker.statements import Statement, back_quoted, name_parts, quoted
from queuegate_worker.tasks.arguments import Call, as_text
from queuegate_worker.tasks.task import AnyTask

ATTEMPTS = 5  # of a queue whose tasks ask for nothing else
_NAME_MAX = 64  # characters of a schedule or table
_SENDS = re.compile(  # of a periodic task, as SHOW CREATE SCHEDULE has it
    r"CREATE SCHEDULE `(?:[^`]|``)+` ON `(?P<queue>(?:[^`]|``)+)` (?s:.)*?"
    r"\(`task`, `args`(?:, `once`)?\) VALUES \('(?P<task>(?:[^']|'')*)', '[^']*'(?:, '(?P<once>\w+)')?\)"
)

_COLUMNS = """
  task VARCHAR(255) NOT NULL,
  args JSON NOT NULL,
  traceparent VARCHAR(55),
  once VARCHAR(64),
  open_once VARCHAR(64) GENERATED ALWAYS AS (IF(time_acked IS NULL, once, NULL)),
  UNIQUE KEY once (open_once)
"""
_RESULT_COLUMNS = """
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  task VARCHAR(255) NOT NULL,
  result JSON,
  finished_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  KEY expires_at (expires_at)
"""


def statements(tasks: Iterable[AnyTask]) -> Iterator[Statement]:
    """What makes their queues and tables, where they are missing. Raises WorkerError."""
    by_queue: dict[str, list[AnyTask]] = {}
    for each in tasks:
        by_queue.setdefault(each.queue, []).append(each)
    for queue, of_queue in by_queue.items():
        yield create_queue(queue, max((each.max_attempts or ATTEMPTS) for each in of_queue))
        if any(each.keep_result for each in of_queue):
            yield create_results(queue)


def columns(tasks: Sequence[AnyTask]) -> Iterator[tuple[str, Statement]]:
    """For each of their queues and tables its name, and a query that fails where it has other columns, since something
    else of that name was there before."""
    of_unique = {each.queue for each in tasks if each.unique is not None}
    for queue in sorted({each.queue for each in tasks}):
        names = "task, args, traceparent, once, epoch" + (", open_once" if queue in of_unique else "")
        yield queue, (f"SELECT {names} FROM {quoted(queue)} LIMIT 0", ())
    for table in sorted({results_table(each.queue) for each in tasks if each.keep_result}):
        yield table, (f"SELECT id, task, result, finished_at, expires_at FROM {table} LIMIT 0", ())


def create_queue(queue: str, attempts: int) -> Statement:
    """CREATE QUEUE with the columns of tasks."""
    return f"CREATE QUEUE IF NOT EXISTS {quoted(queue)} ({_COLUMNS}) WITH (max_attempts = %s)", (attempts,)


def results_table(queue: str) -> str:
    """The quoted name of the table with the results of a queue's tasks. Raises WorkerError."""
    return _beside(queue, f"{name_parts(queue)[-1]}_results")


def create_results(queue: str) -> Statement:
    """CREATE TABLE of the results of a queue's tasks."""
    return f"CREATE TABLE IF NOT EXISTS {results_table(queue)} ({_RESULT_COLUMNS}) ENGINE=InnoDB", ()


def store_result(task: AnyTask, queue: str, message_id: Any, value: str) -> Statement:
    """In the transaction of the ack."""
    columns = "(id, task, result, finished_at, expires_at)"
    ends = "UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL %s SECOND"
    text = f"REPLACE INTO {results_table(queue)} {columns} VALUES (%s, %s, %s, {ends})"
    return text, (str(message_id), task.name, value, round(task.keep_result or 0))


def delete_expired(queue: str, most: int) -> Statement:
    """Deletes results whose time is over."""
    return f"DELETE FROM {results_table(queue)} WHERE expires_at < UTC_TIMESTAMP(6) LIMIT %s", (most,)


def schedule_name(task: AnyTask) -> str:
    """The name of a periodic task's schedule: that of the task. Raises WorkerError where it is too long."""
    if len(task.name) > _NAME_MAX:
        raise WorkerError(f"the name of a periodic task has at most {_NAME_MAX} characters; give {task.name} a name=")
    return task.name


def show_schedule(task: AnyTask) -> Statement:
    """Returns the statement that makes the task's schedule as it is now."""
    return f"SHOW CREATE SCHEDULE {_beside(task.queue, schedule_name(task))}", ()


def schedule(task: AnyTask, now: str | None) -> Iterator[Statement]:
    """What makes the task's schedule as the program has it; `now`: the statement that makes it as it is. One that sends
    something else, or to another queue, is made anew; else its rule is changed. Raises WorkerError for one that is not
    of this task."""
    name = _beside(task.queue, schedule_name(task))
    if now is not None:
        sent = _SENDS.match(now)
        if sent is None or sent["task"].replace("''", "'").replace(r"\\", "\\") != task.name:
            raise WorkerError(f"there is a schedule {task.name} that is not of this task: give the task another name=")
        if (sent["queue"].replace("``", "`"), sent["once"]) != (name_parts(task.queue)[-1], _once(task)):
            yield f"DROP SCHEDULE {name}", ()
    yield from _create_schedule(task, name)


def _once(task: AnyTask) -> str | None:
    """What a message of a periodic task has in the column `once`."""
    return None if task.unique is None else task.parameters.key(task.name, Call((), {}), task.unique)


def _create_schedule(task: AnyTask, name: str) -> Iterator[Statement]:
    """CREATE where it is missing, and ALTER to the rule of the program."""
    schedule = task.schedule
    assert schedule is not None
    if schedule.cron is not None:
        rule, options = "CRON %s TIME ZONE %s", {"cron": schedule.cron, "time_zone": schedule.time_zone or "UTC"}
    else:
        rule, options = "EVERY %s", {"every": schedule.every or ""}
    values = options.values()
    call = (task.name, as_text(Call((), {})))
    head = f"CREATE SCHEDULE IF NOT EXISTS {name} ON {quoted(task.queue)} {rule}"
    if (once := _once(task)) is None:
        yield f"{head} (task, args) VALUES (%s, %s)", (*values, *call)
    else:
        yield f"{head} (task, args, once) VALUES (%s, %s, %s)", (*values, *call, once)
    yield f"ALTER SCHEDULE {name} SET ({', '.join(f'{option} = %s' for option in options)})", tuple(options.values())


def _beside(queue: str, name: str) -> str:
    """A name of the queue's database, quoted."""
    if len(name) > _NAME_MAX:
        raise WorkerError(f"{name} is longer than {_NAME_MAX} characters")
    return ".".join(map(back_quoted, [*name_parts(queue)[:-1], name]))
