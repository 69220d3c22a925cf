"""The receivers of a queue: who has a stream open, from where, under what name, with how much unacked; and ending one.
And the receivers of all queues, by their names, with the messages that each holds.

One statement, or two where there is no receiver: whether there is such a queue at all; two for those of all queues. A
stream is ended only while it is one of this queue's: the page may be older than the connection."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.database import StatementError, name_sql, pattern_of, queue_sql
from console.pages.visible_queues import check_exists
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, NotFound, Page, Parameter, Visit
from engine.model.key_range import Keys
from engine.model.queue import QueueName

SHOWN_MAX = 200
IDS_SHOWN = 10
_ENDS = {"stream": "KILL QUERY", "connection": "KILL"}


@dataclass(frozen=True, slots=True)
class Receiver:
    """One open stream. `key_range`: its part of the queue's ring; None: all of it. `keys`: how it shares them. `does`:
    what it waits for, in words; `since`: UTC, as the proxy writes it."""

    connection: int
    account: str
    host: str
    consumer: str | None
    pid: int | None
    mode: str
    filter: str | None
    key_range: str | None
    keys: str
    prefetch: int
    unacked: int
    sent: int
    does: str
    since: str | None


@dataclass(frozen=True, slots=True)
class ReceiversPage:
    """What the page shows: the first SHOWN_MAX of `total`, those that hold most first."""

    queue: QueueName
    receivers: tuple[Receiver, ...]
    total: int
    unacked: int
    sql: str
    ranges: tuple[Mapping[str, Any], ...] = ()
    """The rows of SHOW QUEUE RANGES, where one of them receives a part of the ring."""


def receiver(row: Mapping[str, Any]) -> Receiver:
    """Of one row of SHOW SUBSCRIPTIONS, whose names are in lower case."""
    if row["window_full"]:
        does = "prefetch limit reached: waits for acks"
    elif row["waiting"]:
        does = "waits for messages"
    else:
        does = "has not read all that was sent"
    return Receiver(
        connection=int(row["connection_id"]),
        account=str(row["user"]),
        host=str(row["host"]),
        consumer=row["consumer"],
        pid=None if row["pid"] is None else int(row["pid"]),
        mode=str(row["mode"]),
        filter=row["filter"] or None,
        key_range=row.get("key_range"),
        keys=row.get("keys") or Keys.SHARED.value,
        prefetch=int(row["prefetch"]),
        unacked=int(row["unacked"]),
        sent=int(row["sent"]),
        does=does,
        since=row["since"],
    )


async def read_receivers(visit: Visit) -> ReceiversPage:
    """See the module. Raises NotFound."""
    queue = visit.queue
    receivers, sql = await _receivers(visit, queue)
    if not receivers:
        await check_exists(visit, queue)
    ordered = sorted(receivers, key=lambda each: (-each.unacked, each.connection))
    unacked = sum(each.unacked for each in receivers)
    ranges: tuple[Mapping[str, Any], ...] = ()
    if any(each.key_range or each.keys != Keys.SHARED.value for each in receivers):
        with contextlib.suppress(StatementError):  # there may be more ranges than one statement counts
            ranges = tuple((await visit.session.database.read(f"SHOW QUEUE {queue_sql(queue)} RANGES")).lowered)
    return ReceiversPage(queue, tuple(ordered[:SHOWN_MAX]), len(receivers), unacked, sql, ranges)


async def _receivers(visit: Visit, queue: QueueName) -> tuple[list[Receiver], str]:
    answer = await visit.session.database.read(
        f"SHOW SUBSCRIPTIONS FROM {name_sql(queue.database)} LIKE %s", pattern_of(queue.table)
    )
    return [receiver(row) for row in answer.lowered if row["queue"] == queue.table], answer.sql


@dataclass(slots=True)
class _Held:
    """The messages of a queue that a connection holds."""

    ids: list[str] = field(default_factory=list)
    seconds_left: float = float("inf")


@dataclass(frozen=True, slots=True)
class Holding:
    """What one connection has of one queue. `consumer`: its name, empty where it has none; `connection`: None where it
    is not known which one holds the messages. `held`: how many messages; `ids`: the first IDS_SHOWN of them.
    `seconds_left`: until the first of their leases ends. `stream`: None where it has none open, because it receives by
    results that end."""

    consumer: str
    connection: int | None
    account: str
    host: str
    queue: QueueName
    held: int
    ids: tuple[str, ...]
    seconds_left: float | None
    stream: Receiver | None


@dataclass(frozen=True, slots=True)
class AllReceivers:
    """What the page shows: the first SHOWN_MAX of `total`, by name. `refused`: what cannot be shown of what they
    hold."""

    holdings: tuple[Holding, ...]
    total: int
    held: int
    filter: str
    sql: str
    refused: str = ""


_IN_FLIGHT = (
    "SELECT queue, db, id, seconds_left, connection_id, user, host, consumer FROM queuegate.in_flight"
    " ORDER BY connection_id, db, queue, seconds_left"
)

_Place = tuple[int | None, QueueName]


async def read_all_receivers(visit: Visit) -> AllReceivers:
    """See the module."""
    containing = visit.text("filter", most=100).strip()
    database, refused = visit.session.database, ""
    streams = await database.read("SHOW SUBSCRIPTIONS")
    rows: Sequence[Mapping[str, Any]] = ()
    try:
        rows = (await database.read(_IN_FLIGHT)).lowered
    except StatementError as error:
        refused = error.full_message
    everyone = holdings_of(streams.lowered, rows)
    holdings = [each for each in everyone if containing.lower() in f"{each.consumer} {each.queue}".lower()]
    held = sum(each.held for each in holdings)
    sql = f"{streams.sql};\n{_IN_FLIGHT}"
    return AllReceivers(tuple(holdings[:SHOWN_MAX]), len(holdings), held, containing, sql, refused)


def holdings_of(streams: Iterable[Mapping[str, Any]], leased: Iterable[Mapping[str, Any]]) -> list[Holding]:
    """Of rows of SHOW SUBSCRIPTIONS and of queuegate.in_flight, by name. Pure."""
    held: dict[_Place, _Held] = {}
    who: dict[_Place, tuple[str, str, str]] = {}
    for row in leased:
        connection = None if row["connection_id"] is None else int(row["connection_id"])
        place = (connection, QueueName(str(row["db"]), str(row["queue"])))
        one = held.setdefault(place, _Held())
        one.ids.append(str(row["id"]))
        one.seconds_left = min(one.seconds_left, float(row["seconds_left"]))
        who[place] = (row["consumer"] or "", row["user"] or "", row["host"] or "")
    open_streams: dict[_Place, Receiver] = {}
    for row in streams:
        each = receiver(row)
        place = (each.connection, QueueName(str(row["database"]), str(row["queue"])))
        open_streams[place] = each
        who[place] = (each.consumer or "", each.account, each.host)
    return sorted(
        (_holding(place, who[place], held.get(place), open_streams.get(place)) for place in who),
        key=lambda each: (each.connection is None, each.consumer, each.connection or 0, each.queue),
    )


def _holding(place: _Place, who: tuple[str, str, str], held: _Held | None, stream: Receiver | None) -> Holding:
    (connection, queue), (consumer, account, host) = place, who
    known, unacked = len(held.ids) if held else 0, stream.unacked if stream else 0
    return Holding(
        consumer,
        connection,
        account,
        host,
        queue,
        max(known, unacked),
        tuple(held.ids[:IDS_SHOWN]) if held else (),
        held.seconds_left if held else None,
        stream,
    )


async def end_receiver(visit: Visit) -> Done:
    """End a stream, or the connection that it is on."""
    queue, how = visit.queue, visit.choice("what", tuple(_ENDS), "stream")
    connection = connection_of(visit.text("connection", most=20))
    receivers, _ = await _receivers(visit, queue)
    if all(each.connection != connection for each in receivers):
        raise NotFound(f"connection {connection} has no open stream of {queue}: it may have ended already")
    answer = await visit.session.database.change(f"{_ENDS[how]} {connection}")
    ended = f"the {'stream of ' if how == 'stream' else ''}connection {connection} is ended"
    return Done(f"{ended}: its unacked messages go to other receivers", _page_of(queue), answer.sql)


def connection_of(text: str) -> int:
    """The number of a connection. Raises BadInput."""
    if not re.fullmatch(r"[0-9]{1,20}", text, re.ASCII):
        raise BadInput("connection: is no number of a connection")
    return int(text)


def _page_of(queue: QueueName) -> str:
    return link("/queue/receivers", db=queue.database, name=queue.table)


_ENDING = (
    *QUEUE_PARAMETERS,
    Parameter("connection", "the connection whose stream is to end", required=True),
    Parameter("what", "`stream`: KILL QUERY, the connection stays; `connection`: KILL. By default the stream"),
)

PAGES = (
    Page(
        read_all_receivers, "The receivers of all queues, and what each holds", "/receivers", "all_receivers.html",
        "/receivers", (Parameter("filter", "only receivers or queues whose names contain this"),), nav="Receivers",
    ),
    Page(read_all_receivers, "The same, refreshed", "/receivers/now", "all_receivers_now.html", refresh=True),
    Page(
        read_receivers, "The receivers of a queue", "/queue/receivers", "receivers.html", "/queue/receivers",
        QUEUE_PARAMETERS,
    ),
    Page(read_receivers, "The same, refreshed", "/queue/receivers/now", "receivers_now.html", refresh=True),
)  # fmt: skip
ACTIONS = (
    Action(
        end_receiver, "End a receiver's stream", "/queue/receivers/end", "/queue/receivers/end", _ENDING,
        "/queue/receivers",
    ),
)  # fmt: skip
