"""The system: which database is behind the proxy and how it is set, which proxies serve it, who is connected, and how
the console's own proxy is configured.

At most five statements, each with what the account may see of it; what it may not see is reported in its place. The
proxies' secrets are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from console.database import StatementError, queue_sql
from console.visits import Page, Visit
from engine.model.queue import QueueName
from proxy.release import release

SHOWN_MAX = 200
TABLES_MAX = 20
_PROXIES_MAX = 1000
_PROXIES_TABLE = "queuegate_proxies"
_VARIABLES = (
    "version", "version_comment", "max_connections", "wait_timeout", "max_allowed_packet", "sql_mode", "time_zone",
    "system_time_zone", "transaction_isolation", "tx_isolation", "character_set_server", "collation_server",
    "read_only", "auto_increment_increment", "innodb_flush_log_at_trx_commit", "innodb_lock_wait_timeout",
    "sync_binlog", "wsrep_on",
)  # fmt: skip
"""What matters to queues of the server's settings; none of them is a secret."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting of the database."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the proxy's configuration. `configured`: its value is not the default."""

    name: str
    value: str | None
    configured: bool


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy. `database`: where its table is; `id`: the first letters of what it calls itself; `workers`: how many of
    its processes are there; `server`: the database server it is connected to; `seen_ns`: when it last updated its row.
    """

    database: str
    id: str
    workers: int
    addresses: tuple[str, ...]
    server: str
    seen_ns: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection. `seconds`: since when it is in its state; `info`: the beginning of its statement."""

    id: int
    account: str
    host: str
    database: str | None
    command: str
    seconds: int | None
    state: str | None
    info: str | None


@dataclass(frozen=True, slots=True)
class SystemPage:
    """What the page shows. `proxy`: where the console reaches it; `counters_age`: seconds since the console last had
    its counters. `proxies`: those of TABLES_MAX databases; `proxies_whole`: no more have any. `connections`: SHOWN_MAX
    of `connections_total`. `refused`: what the account may not see, and why."""

    console_version: str
    proxy: str
    counters_age: float | None
    version: str
    version_comment: str
    variables: tuple[Variable, ...]
    settings: tuple[Setting, ...]
    proxies: tuple[Proxy, ...]
    proxies_whole: bool
    connections: tuple[Connection, ...]
    connections_total: int
    refused: tuple[str, ...]


async def read_system(visit: Visit) -> SystemPage:
    """See the module."""
    refused: list[str] = []
    variables = {
        row["Variable_name"]: str(row["Value"]) for row in await _rows(visit, refused, "settings", _SHOW, *_VARIABLES)
    }
    listed = [connection(_lower(row)) for row in await _rows(visit, refused, "connections", "SHOW PROCESSLIST")]
    listed.sort(key=lambda each: (each.account, each.id))
    places = await databases_with(visit, refused, _PROXIES_TABLE, "proxies")
    last_sampled = visit.rates.last_sampled
    return SystemPage(
        console_version=release(),
        proxy=visit.session.database.place,
        counters_age=None if last_sampled is None else visit.now - last_sampled,
        version=variables.get("version", ""),
        version_comment=variables.get("version_comment", ""),
        variables=tuple(Variable(name, variables[name]) for name in _VARIABLES if name in variables),
        settings=await _settings(visit, refused),
        proxies=await _proxies(visit, refused, places),
        proxies_whole=len(places) < TABLES_MAX,
        connections=tuple(listed[:SHOWN_MAX]),
        connections_total=len(listed),
        refused=tuple(refused),
    )


_SHOW = f"SHOW VARIABLES WHERE Variable_name IN ({', '.join(['%s'] * len(_VARIABLES))})"
_SETTINGS = "SELECT name, value, configured FROM queuegate.settings LIMIT 200"
_WHERE = (
    "SELECT TABLE_SCHEMA AS place FROM information_schema.TABLES WHERE TABLE_NAME = %s"
    f" ORDER BY TABLE_SCHEMA LIMIT {TABLES_MAX}"
)


async def _rows(visit: Visit, refused: list[str], what: str, sql: str, *values: object) -> tuple[dict[str, Any], ...]:
    """The rows of a statement; none where the account may not run it, which is reported."""
    try:
        return (await visit.session.database.read(sql, *values)).rows
    except StatementError as error:
        refused.append(f"{what}: {error.full_message}")
        return ()


async def _settings(visit: Visit, refused: list[str]) -> tuple[Setting, ...]:
    rows = await _rows(visit, refused, "configuration", _SETTINGS)
    return tuple(Setting(str(row["name"]), row["value"], bool(row["configured"])) for row in rows)


async def databases_with(visit: Visit, refused: list[str], table: str, what: str) -> tuple[str, ...]:
    """The databases that have a table of that name, as far as the account may know."""
    return tuple(str(row["place"]) for row in await _rows(visit, refused, what, _WHERE, table))


async def _proxies(visit: Visit, refused: list[str], places: Sequence[str]) -> tuple[Proxy, ...]:
    """Of the databases that have their table: a server may have several, each with proxies of its own."""
    if not places:
        return ()
    selects = (
        "SELECT %s AS place, proxy, worker, address, server, time_seen"
        f" FROM {queue_sql(QueueName(place, _PROXIES_TABLE))}"
        for place in places
    )
    sql = f"{' UNION ALL '.join(selects)} ORDER BY place, proxy, worker LIMIT {_PROXIES_MAX}"
    return proxies(await _rows(visit, refused, "proxies", sql, *places))


def proxies(rows: Sequence[Mapping[str, Any]]) -> tuple[Proxy, ...]:
    """Of rows of their tables, one for each process, in the order of the databases and proxies."""
    made = []
    for (place, name), group in groupby(rows, key=lambda row: (str(row["place"]), str(row["proxy"]))):
        workers = list(group)
        made.append(
            Proxy(
                database=place,
                id=name[:8],
                workers=len(workers),
                addresses=tuple(dict.fromkeys(str(each["address"]) for each in workers)),
                server=str(workers[-1]["server"]),
                seen_ns=max(int(each["time_seen"]) for each in workers),
            )
        )
    return tuple(made)


def connection(row: Mapping[str, Any]) -> Connection:
    """Of one row of SHOW PROCESSLIST, whose names are in lower case."""
    return Connection(
        id=int(row["id"]),
        account=str(row["user"]),
        host=str(row["host"]),
        database=row["db"],
        command=str(row["command"]),
        seconds=None if row["time"] is None else int(row["time"]),
        state=row["state"],
        info=None if row["info"] is None else str(row["info"])[:200],
    )


def _lower(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in row.items()}


PAGES = (
    Page(read_system, "The database, its proxies and connections", "/system", "system.html", "/system", nav="System"),
)
