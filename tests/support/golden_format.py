"""Golden files: blocks of `-- title`, a statement, and `--> ` lines that say what becomes of it.

A `-- database: name` or `-- modes: A,B` line in a block changes the context; `none` means no current database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.model.errors import EngineError
from engine.model.options import to_comment
from engine.model.queue import Start, StartAt, WaitMode
from engine.model.schedules import Cron, values_text
from rewriter.errors import RewriteError, UnknownQueue
from rewriter.plan import (
    NO_EFFECTS,
    AlterSchedulePlan,
    CreateConsumerGroup,
    CreateSchedulePlan,
    DropSchedulePlan,
    Effects,
    EndInGroup,
    Execute,
    ExecuteCounting,
    ExplainDelivery,
    InformationTable,
    InsertAfterGroup,
    Kill,
    NoOperation,
    Passthrough,
    Plan,
    PlanContext,
    ReadSystem,
    Rebind,
    Redrive,
    RunSchedulePlan,
    SchedulePlan,
    SeekConsumerGroup,
    Show,
    ShowSystem,
    Subscribe,
    Trace,
    TraceInQueue,
    UseDatabase,
)
from rewriter.planner import Planner
from rewriter.views import Scope, View

NOW = "(NOW_NS())"


@dataclass
class Case:
    title: str
    sql: str
    expected: list[str]
    database: str | None = "shop"
    modes: frozenset[str] = field(default_factory=frozenset)
    head: list[str] = field(default_factory=list)


def read_cases(path: Path) -> list[Case]:
    return [_case(block) for block in path.read_text().split("\n\n") if block.strip()]


def _case(block: str) -> Case:
    lines = block.strip("\n").split("\n")
    head = []
    while lines[0].startswith("-- "):
        head.append(lines.pop(0))
    case = Case(head[0][3:], "", [line for line in lines if line.startswith("--> ")], head=head)
    case.sql = "\n".join(line for line in lines if not line.startswith("--> "))
    for line in head[1:]:
        key, _, value = line[3:].partition(": ")
        if key == "database":
            case.database = None if value == "none" else value
        elif key == "modes":
            case.modes = frozenset(value.split(","))
    return case


def outcome(planner: Planner, case: Case) -> list[str]:
    """What the planner makes of the case, as `--> ` lines."""
    try:
        plan = planner.plan(case.sql, PlanContext(case.database, NOW, case.modes))
    except (RewriteError, EngineError) as error:
        note = " [perhaps an alias]" if isinstance(error, UnknownQueue) and error.perhaps_alias else ""
        return [f"--> error {error.errno} ({error.sqlstate}): {error.message}{note}".replace("\n", "\\n")]
    return [f"--> {line}" for line in rendered(plan)]


def rendered(plan: Plan) -> list[str]:
    if isinstance(plan, SchedulePlan):
        return _schedule(plan)
    match plan:
        case Passthrough(effects):
            return ["pass through", *_effects(effects)]
        case Execute(sql, effects, warnings, check):
            parts = [] if plan.partitions is None else [f"if it can have partitions: {plan.partitions.topic}"]
            lines = [*_check(check), *parts, f"execute: {sql}".replace("\n", "\\n"), *_effects(effects)]
            return lines + [f"warning {text}" for text in warnings]
        case EndInGroup(sql, effects, group, seen):
            lines = [f"groups of {group.queue} by {group.column}: {seen}", f"execute: {sql}"]
            return [*lines, *_effects(effects)]
        case InsertAfterGroup(held, plain, effects, group, value, follow):
            lines = [f"after group {value} of {group.queue} by {group.column}: {held}", f"or at once: {plain}"]
            own = "numbered by the database" if plan.numbered else f"id {plan.id}"
            return [*lines, f"message of {follow}, {own}", *_effects(effects)]
        case ExecuteCounting(_, counts, column):
            return [f"tell the count as {column}", *rendered(counts)]
        case Redrive(mark, copy, delete, effects):
            return [f"mark: {mark}", f"copy: {copy}", f"delete: {delete}", *_effects(effects)]
        case Rebind(sql, parameters, column):
            return [f"plan again with {parameters} values" + (f", a result with {column}" if column else "")]
        case CreateConsumerGroup(topic, group, options, start, moment, check):
            made = f"make {group}, which reads {topic} {_beginning(start, moment)}"
            return [*_check(check), made, f"comment {to_comment(options)}"]
        case SeekConsumerGroup(group, start, moment):
            return [f"have {group} read on {_beginning(start, moment)}"]
        case NoOperation(errno, note):
            return [f"nothing to do, note {errno}: {note}"]
        case Subscribe():
            shown = [] if plan.filter is None else [f"where {' ? '.join(plan.filter.parts)}"]
            return [_subscribe(plan), *shown]
        case Show():
            return [_show(plan)]
        case ExplainDelivery(queue, sql, ids):
            return [f"explain delivery of {queue}: {sql}"] + ([f"ids {ids}"] if ids else [])
        case Trace(topic, id_, sql, groups):
            asked = [f"in the queue of {group}: {question.sql}" for group, question in groups]
            return [f"trace message {id_} of {topic}: {sql}", *asked]
        case TraceInQueue(question, sql):
            asked = [f"in the queue {question.queue}: {question.sql}"] + (
                [f"ids {question.ids}"] if question.ids else []
            )
            return [f"trace message: {sql}", *asked]
        case ReadSystem(pieces):
            text = "".join(piece if isinstance(piece, str) else f"<{_table(piece)}>" for piece in pieces)
            return [f"read: {text}".replace("\n", "\\n")]
        case ShowSystem(what, table, like, full):
            of = f" of {table.table}" if table is not None else ""
            return [f"show {'full ' if full else ''}system {what.value}{of}" + (f" like {like!r}" if like else "")]
        case Kill(number, query_only):
            return [f"kill {'query' if query_only else 'connection'} {number}"]
        case UseDatabase(database):
            return [f"use {database}"]


def _schedule(plan: SchedulePlan) -> list[str]:
    match plan:
        case CreateSchedulePlan(name, queue, if_not_exists, rule, columns, values, missed):
            made = f"make schedule {name} on {queue}" + (" if it is not there" if if_not_exists else "")
            at = f"{rule}, {rule.zone}" if isinstance(rule, Cron) else f"{rule}"
            given = f"{'its columns' if columns is None else ', '.join(columns)}: {values_text(values)}"
            return [f"{made}, {at}, missed {missed.value}", given]
        case AlterSchedulePlan(name, paused, cron, zone, every, missed):
            given = {"paused": paused, "cron": cron, "zone": zone, "every": every, "missed": missed and missed.value}
            changes = ", ".join(f"{key} = {value}" for key, value in given.items() if value is not None)
            return [f"change schedule {name}: {changes}"]
        case DropSchedulePlan(name, if_exists):
            return [f"drop schedule {name}" + (" if it is there" if if_exists else "")]
        case RunSchedulePlan(name):
            return [f"send the message of schedule {name}"]


def _show(plan: Show) -> str:
    what = " ".join(word.lower() for word in plan.view.words.split() if word != "?")
    if plan.view.scope is Scope.SERVER:
        return f"show {what}"
    if plan.view.scope in (Scope.QUEUE, Scope.SCHEDULE):
        return f"show {what} {plan.database}.{plan.name}"
    topic = f", topic {plan.name}" if plan.name else ""
    return f"show {what} of {plan.database or 'all databases'}{topic}" + (f" like {plan.like!r}" if plan.like else "")


def _table(piece: View | InformationTable) -> str:
    return piece.table if isinstance(piece, View) else piece.value


def _check(sql: str) -> list[str]:
    return [f"first: {sql}"] if sql else []


def _effects(effects: Effects) -> list[str]:
    if effects == NO_EFFECTS:
        return []
    lines = [f"touched {queue}" for queue in sorted(effects.touched)]
    lines += [f"if it changes all {effects.if_all}:"] if effects.if_all else []
    lines += [f"settled {queue}: {', '.join(map(repr, ids))}" for queue, ids in effects.settled]
    lines += [f"changed {queue}: {', '.join(map(repr, ids))}" for queue, ids in effects.changed]
    lines += [f"rejected {queue}" for queue in sorted(effects.rejected)]
    lines += [f"uncertain {queue}" for queue in sorted(effects.uncertain)]
    lines += [f"removes {queue}" for queue in sorted(effects.removes)]
    lines += [f"drops {queue}" for queue in sorted(effects.drops)]
    lines += ["catalog"] if effects.catalog else []
    lines += [f"transaction {effects.transaction.value}"] if effects.transaction else []
    return lines


def _beginning(start: StartAt, moment: str) -> str:
    """From where a reader of a topic begins. A time is still to be read in the session's time zone."""
    match start.start:
        case Start.OFFSET:
            return f"from offset {start.value}"
        case Start.TIMESTAMP:
            return f"from '{moment}'"
    return f"from {start.start.value}"


def _subscribe(plan: Subscribe) -> str:
    request = plan.request
    parts = [f"subscribe {request.queue}", f"columns={'*' if request.columns is None else ','.join(request.columns)}"]
    if request.start is not None:
        parts[0] = f"broadcast {request.queue} {_beginning(request.start, plan.moment)}"
    if request.limit is not None:
        parts.append(f"limit={request.limit}")
    if request.wait_mode is WaitMode.WAIT:
        parts.append(f"wait={request.wait_seconds:g}")
    elif request.wait_mode is WaitMode.NOWAIT:
        parts.append("nowait")
    if request.prefetch is not None:
        parts.append(f"prefetch={request.prefetch}")
    if request.ack_wait_ns is not None:
        parts.append(f"ack_wait={request.ack_wait_ns / 1e9:g}s")
    if request.consumer:
        parts.append(f"consumer={request.consumer!r}")
    if plan.parameters:
        parts.append(f"parameters={','.join(plan.parameters)}")
    return " ".join(parts)
