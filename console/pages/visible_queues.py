"""Which queues the account may see, and the figures of those that are shown.

SHOW QUEUES is answered from the proxy's memory, however many there are. SHOW QUEUE STATUS counts in the tables, so it
is asked for at most COUNTED_MAX queues. SHOW SUBSCRIPTIONS has a row for each open stream, so it is asked for where the
counts leave open what the receivers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.database import name_sql, pattern_of
from console.pages.figures import Figures
from console.pages.problems import Streams, streams_of
from console.visits import NotFound, Visit
from engine.model.queue import QueueName, default_dead_letter

COUNTED_MAX = 200
_MANY, _CACHE_SECONDS = 1000, 3.0  # from so many queues on their list, 50 ms of work, is asked for once in this time
_CACHE_KEY = "queues"


async def visible_queues(visit: Visit) -> tuple[Figures, ...]:
    """All queues that the account may see, by name, without what has to be counted."""
    at, queues = visit.session.cache.get(_CACHE_KEY, (float("-inf"), ()))
    if len(queues) < _MANY or visit.now - at >= _CACHE_SECONDS:
        answer = await visit.session.database.read("SHOW QUEUES")
        queues = tuple(_from_memory(row) for row in answer.rows)
        visit.session.cache[_CACHE_KEY] = (visit.now, queues)
    visible: tuple[Figures, ...] = queues
    return visible


def forget_queues(visit: Visit) -> None:
    """They have changed."""
    visit.session.cache.pop(_CACHE_KEY, None)


def _from_memory(row: dict[str, Any]) -> Figures:
    columns = {key.lower(): value for key, value in row.items()}
    problem = columns.get("problem")
    paused = bool(problem) and str(problem).startswith("paused:")
    return Figures(
        QueueName(columns["database"], columns["queue"]),
        receivers=None if columns["receivers"] is None else int(columns["receivers"]),
        paused=paused,
        problem=None if paused else problem,
    )


async def counted(visit: Visit, queues: Sequence[Figures], containing: str) -> tuple[Figures, ...]:
    """The same queues with their counts, where there are few enough; else as they are. `containing`: a part that all of
    their names have."""
    if not queues or len(queues) > COUNTED_MAX:
        return tuple(queues)
    databases = {each.queue.database for each in queues}
    of_one = f" FROM {name_sql(next(iter(databases)))}" if len(databases) == 1 else ""
    answer = await visit.session.database.read(f"SHOW QUEUE STATUS{of_one} LIKE %s", f"%{pattern_of(containing)}%")
    by_name = {each.queue: each for each in map(Figures.of_row, answer.rows)}
    return tuple(by_name.get(each.queue, each) for each in queues)


async def streams_like(visit: Visit, queues: Sequence[Figures], pattern: str) -> Mapping[QueueName, Streams]:
    """What the open streams of these queues do, where that matters: some of them hold messages, or let some wait.
    `pattern`: a LIKE pattern that fits all of their names."""
    if not any(each.in_flight or (each.ready and each.receivers) for each in queues):
        return {}
    databases = {each.queue.database for each in queues}
    of_one = f" FROM {name_sql(next(iter(databases)))}" if len(databases) == 1 else ""
    return streams_of((await visit.session.database.read(f"SHOW SUBSCRIPTIONS{of_one} LIKE %s", pattern)).lowered)


async def figures_of(visit: Visit, queue: QueueName) -> Figures:
    """One queue, counted. Raises NotFound."""
    answer = await visit.session.database.read(
        f"SHOW QUEUE STATUS FROM {name_sql(queue.database)} LIKE %s", pattern_of(queue.table)
    )
    for each in map(Figures.of_row, answer.rows):
        if each.queue == queue:
            return each
    raise NotFound(f"there is no queue {queue}, or this account may not see it")


async def check_exists(visit: Visit, queue: QueueName, *, or_topic: bool = False) -> None:
    """Raises NotFound where there is no such queue, or topic, that the account may see."""
    if any(each.queue == queue for each in await visible_queues(visit)):
        return
    if or_topic:
        answer = await visit.session.database.read(
            f"SHOW TOPICS FROM {name_sql(queue.database)} LIKE %s", pattern_of(queue.table)
        )
        if any(row["Topic"] == queue.table for row in answer.rows):
            return
    raise NotFound(f"there is no {'queue or topic' if or_topic else 'queue'} {queue}, or this account may not see it")


async def dead_letters_of(visit: Visit, queue: QueueName) -> QueueName | None:
    """The dead-letter queue that has the usual name, if there is one."""
    wanted = replace_table(queue, default_dead_letter(queue.table))
    return wanted if any(each.queue == wanted for each in await visible_queues(visit)) else None


def replace_table(queue: QueueName, table: str) -> QueueName:
    """Another table of the same database."""
    return QueueName(queue.database, table)
