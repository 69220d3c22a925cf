"""SHOW PROCESSLIST: the database's list, in which our clients have their own addresses and streams are shown."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.outcome import Collected
from proxy.cluster.peers import Peers
from proxy.cluster.registry import ProcessInfo
from proxy.session.session import ClientSession
from proxy.show.columns import Row, number_column, text_column
from proxy.show.visibility import Visibility
from proxy.upstream.base import collected

PROCESSES_COLUMNS = (
    number_column("Id"),
    text_column("User", 32),
    text_column("Host", 64),
    text_column("db", 64),
    text_column("Command", 16),
    number_column("Time"),
    text_column("State", 64),
    text_column("Info", 1024),
)


def processes_with_streams(listed: Collected, own: Sequence[ProcessInfo], *, alone: bool = False) -> list[Row]:
    """The backend's process list, in which the proxy's clients have their own addresses, and streaming ones show what
    they stream.

    Connections of the proxy's own account get their client's id, name and address. Sessions that it does
    not list come last: their connection to it is gone, and another may have its id by now, or they have none.
    `alone`: the proxy's are all last.
    """
    by_backend_id = {str(p.backend_id or p.connection_id).encode(): p for p in own if not p.detached}
    names = [column.name.lower() for column in listed.columns]
    rows: list[Row] = []
    for row in listed.rows:
        process = by_backend_id.get(row[0] or b"")
        rows.append(row if process is None else _overlaid(row, names, process))
    listed_ids = {row[0] for row in listed.rows}
    proxied = [p for n, p in by_backend_id.items() if p.proxied and n not in listed_ids]
    missing = own if alone else [*(p for p in own if p.detached), *proxied]
    rows += [_listed(names, process) for process in missing]
    return rows


def _listed(names: Sequence[str], process: ProcessInfo) -> Row:
    """The row of a connection that the backend does not list."""
    values = _overlay(process)
    values |= {"id": str(process.connection_id).encode(), "user": process.user.encode()}
    if process.database is not None:
        values["db"] = process.database.encode()
    return tuple(values.get(name) for name in names)


def _overlaid(row: Row, names: Sequence[str], process: ProcessInfo) -> Row:
    overlay: dict[str, TextValue] = {"host": process.host.encode()}
    overlay |= _overlay(process) if process.streaming else {}
    if process.proxied:
        overlay |= {
            "id": str(process.connection_id).encode(),
            "user": process.user.encode(),
            "host": process.host.encode(),
        }
    return tuple(overlay.get(name, value) for name, value in zip(names, row, strict=True))


def _overlay(process: ProcessInfo) -> dict[str, TextValue]:
    return {
        "host": process.host.encode(),
        "command": process.command.encode(),
        "time": str(process.seconds).encode(),
        "state": process.state.encode(),
        "info": process.info.encode() if process.info else None,
    }


async def process_list(
    session: ClientSession, peers: Peers, visibility: Visibility, sql: str
) -> tuple[tuple[ColumnMeta, ...], list[Row]]:
    """The answer to SHOW PROCESSLIST: the database's list with the proxy's additions; of an account with limits, its
    own connections only. `sql` is the statement, which the list itself shows. Of streams that the database no longer
    knows, only those are shown that it would show to this account."""
    if session.rights is None:
        listed, processes = await collected(session.upstream, sql), await peers.processes()
        if any(process.detached for process in processes):
            can_see = await visibility.can_see_user()
            processes = [process for process in processes if not process.detached or can_see(process.user)]
        return listed.columns, processes_with_streams(listed, processes)
    user, admin = session.identity.user, session.admin
    own = [process for process in await peers.processes() if admin or process.user == user]
    return PROCESSES_COLUMNS, processes_with_streams(Collected(PROCESSES_COLUMNS, ()), own, alone=True)
