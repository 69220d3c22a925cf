"""The ends of a queue, a topic or a group: a page that asks first, and the actions that delete messages or drop all.

Five statements at most: which queues there are, the figures, the definition, the groups of a topic where one of them is
meant, and the statement itself. A definition is shown after a drop: it makes the queue again, without its messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.database import DatabaseError, StatementError, name_sql, queue_sql
from console.pages.figures import Figures
from console.pages.queue_options import explicit_options, options_of
from console.pages.topic import figures_of as topic_figures_of
from console.pages.topic import groups_of
from console.pages.visible_queues import dead_letters_of, figures_of, forget_queues, visible_queues
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.queue import QueueName, quoted
from rewriter.text.literals import plain_literal

WHATS = ("purge", "drop")
OF = ("acked", "all")
"""What a purge deletes."""

PIECE = 10_000
"""Acked messages of one statement: it holds locks, and has a page's seconds."""


@dataclass(frozen=True, slots=True)
class EndPage:
    """What the page asks. `kind`: queue, group or topic. `counts`: of messages by state, None where it is not known.
    `statements`: what can be run, by what it deletes. `dead_letters`: a queue of its own, which stays. `archived`:
    acked messages wait there for an archiving job. `mistake`: why it cannot be done here."""

    queue: QueueName
    what: str
    kind: str
    counts: Mapping[str, int | None]
    receivers: int
    statements: Mapping[str, str]
    dead_letters: QueueName | None
    archived: bool
    mistake: str


@dataclass(frozen=True, slots=True)
class _Target:
    """What is meant. `definition`: the statement that makes it again, empty where it is not known."""

    kind: str
    definition: str
    topic: str = ""
    group: str = ""
    archived: bool = False


async def _target(visit: Visit, queue: QueueName) -> _Target:
    """Raises NotFound, DatabaseError."""
    if not any(each.queue == queue for each in await visible_queues(visit)):
        await topic_figures_of(visit, queue)  # which raises NotFound
        return _Target("topic", await _definition(visit, f"SHOW CREATE TABLE {queue_sql(queue)}", "Create Table"))
    definition = await _definition(visit, f"SHOW CREATE QUEUE {queue_sql(queue)}", "Create Queue")
    try:
        options = explicit_options(definition)
    except ValueError:
        options = {}
    topic, group = options.get("topic", ""), options.get("consumer_group", "")
    kind = "group" if topic and group else "queue"
    return _Target(kind, definition, topic, group, archived=options.get("archive", "0") not in ("", "0"))


async def _definition(visit: Visit, sql: str, column: str) -> str:
    """Empty where the account may not see it."""
    try:
        return str((await visit.session.database.read(sql)).rows[0].get(column, ""))
    except StatementError:
        return ""


async def read_end(visit: Visit) -> EndPage:
    """See the module. Raises NotFound, DatabaseError."""
    queue, what = visit.queue, visit.choice("what", WHATS, "")
    target = await _target(visit, queue)
    if target.kind == "topic":
        figures = await topic_figures_of(visit, queue)
        counts: Mapping[str, int | None] = {"in the topic": figures.messages}
        receivers, dead = figures.readers or 0, None
    else:
        of_queue = await figures_of(visit, queue)
        counts, receivers = _counts(of_queue), of_queue.receivers or 0
        dead = await dead_letters_of(visit, queue)
    statements = {"all": _drop_sql(queue, target)} if what == "drop" else _purge_sql(queue)
    shown = {of: sql.replace("%%", "%") for of, sql in statements.items()}
    return EndPage(
        queue, what, target.kind, counts, receivers, shown, None if target.kind == "group" else dead, target.archived,
        _mistake(what, target.kind),
    )  # fmt: skip


def _mistake(what: str, kind: str) -> str:
    if what == "drop" or kind == "queue":
        return ""
    if kind == "group":
        return "the messages of a group are those of its topic: a seek to the end skips them"
    return "a topic deletes by its options retain, retain_rows and retain_bytes, or by DELETE in SQL"


def _counts(of: Figures) -> Mapping[str, int | None]:
    return {
        "ready": of.ready, "in flight": of.in_flight, "later": of.later, "parked": of.parked, "acked": of.acked,
    }  # fmt: skip


def _drop_sql(queue: QueueName, target: _Target) -> str:
    if target.kind == "group":
        return f"DROP GROUP {name_sql(target.group)} ON {queue_sql(QueueName(queue.database, target.topic))}"
    return f"DROP {target.kind.upper()} {queue_sql(queue)}"


def _purge_sql(queue: QueueName) -> Mapping[str, str]:
    return {
        "acked": f"DELETE FROM {queue_sql(queue)} WHERE time_acked IS NOT NULL LIMIT {PIECE}",
        "all": f"TRUNCATE QUEUE {queue_sql(queue)}",
    }


async def purge(visit: Visit) -> Done:
    """Delete messages of a queue. Raises BadInput, NotFound, DatabaseError."""
    queue, of = visit.queue, visit.choice("of", OF, "")
    if mistake := _mistake("purge", (await _target(visit, queue)).kind):
        raise BadInput(f"name: {mistake}")
    before = await _figures_or_none(visit, queue)
    answer = await visit.session.database.change(_purge_sql(queue)[of])
    more = of == "acked" and answer.affected >= PIECE
    deleted = "message is" if answer.affected == 1 else "messages are"
    kind = " acked" if of == "acked" else ""
    notice = f"{answer.affected}{kind} {deleted} deleted from {queue}"
    if before is not None and of == "all":
        notice = f"{notice}. Before: {_counts_text(_counts(before))}"
    if more:
        notice = f"{notice}, and there are more: purge again"
    goto = link("/queue", db=queue.database, name=queue.table)
    return Done(notice, goto, answer.sql, {"deleted": answer.affected, "more": more})


async def _figures_or_none(visit: Visit, queue: QueueName) -> Figures | None:
    try:
        return await figures_of(visit, queue)
    except DatabaseError:
        return None


def _counts_text(counts: Mapping[str, int | None]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no messages"


async def drop(visit: Visit) -> Done:
    """Drop a queue, a topic or a group. Raises NotFound, DatabaseError."""
    queue = visit.queue
    target = await _target(visit, queue)
    before = await _figures_or_none(visit, queue) if target.kind != "topic" else None
    again = await _group_definition(visit, queue, target) if target.kind == "group" else target.definition
    answer = await visit.session.database.change(_drop_sql(queue, target))
    forget_queues(visit)
    what = f"the group {target.group} of {target.topic}" if target.kind == "group" else f"the {target.kind} {queue}"
    notice = f"{what} is dropped" if before is None else f"{what} is dropped. It had {_counts_text(_counts(before))}"
    goto = link("/topic", db=queue.database, name=target.topic) if target.kind == "group" else "/"
    return Done(notice, goto, answer.sql, again=again)


async def _group_definition(visit: Visit, queue: QueueName, target: _Target) -> str:
    """The statement that makes the group again, to go on where it had read up to; empty where it is not known."""
    topic = QueueName(queue.database, target.topic)
    try:
        explicit = explicit_options(target.definition)
        groups = await groups_of(visit, topic)
    except (ValueError, StatementError):
        return ""
    offset = next((each.offset for each in groups if each.name == target.group), None)
    start = "LATEST" if offset is None else f"OFFSET {offset + 1}"
    options = options_of(explicit, of_group=True)
    settings = ", ".join(f"{each.name} = {plain_literal(each.value)}" for each in options if each.value)
    ending = f" WITH ({settings})" if settings else ""
    return f"CREATE GROUP {quoted(target.group)} ON {topic.sql} START AT {start}{ending}"


_WHAT = Parameter("what", f"one of {', '.join(WHATS)}", required=True)
_OF = Parameter("of", f"`acked`: at most {PIECE} acked messages; `all`: all, whatever their state", required=True)

PAGES = (
    Page(
        read_end, "What a purge or a drop would delete", "/queue/end", "end.html", "/queue/end",
        (*QUEUE_PARAMETERS, _WHAT),
    ),
)  # fmt: skip
ACTIONS = (
    Action(
        purge, "Delete messages of a queue", "/queue/purge", "/queue/purge", (*QUEUE_PARAMETERS, _OF), "/queue/end",
    ),
    Action(
        drop, "Drop a queue, a topic or a consumer group, with its messages", "/queue/drop", "/queue/drop",
        QUEUE_PARAMETERS, "/queue/end",
    ),
)  # fmt: skip
