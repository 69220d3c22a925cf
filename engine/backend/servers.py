"""Which server it is: its version, and whether it is Vitess."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.model.keyspaces import Keyspaces, keyspace_of
from engine.model.sharded import having_shards

# Which database servers are supported, by the version that they report. docs/servers.md has the table for users.

_MYSQL, _MARIADB = (8, 0, 13), (10, 6, 0)
"""SKIP LOCKED, and in MySQL expressions as defaults of columns."""

_INVISIBLE_COLUMNS = (8, 0, 23)  # of MySQL; MariaDB has them since 10.3

_NEEDED = "queuegate needs MySQL 8.0.13 or later, or MariaDB 10.6 or later"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)

_TIDB = "tidb"
"""In the version of a TiDB, which begins with the number of a MySQL. A claim locks its messages by FOR UPDATE SKIP
LOCKED, and a TiDB reports no error and locks nothing. Source: IsSelectForUpdateLockType in
pkg/planner/core/operator/logicalop/logical_lock.go of TiDB."""


def unsupported(version: str) -> str | None:
    """Why a server of this version is not supported; None where it is, or where the text is not understood."""
    if _TIDB in version.lower():
        return (
            f"the server is TiDB ({version}), which accepts FOR UPDATE SKIP LOCKED and locks no row, so two proxies"
            f" would deliver one message; {_NEEDED}"
        )
    match = _VERSION.match(version)
    if match is None:
        return None
    mariadb = is_mariadb(version)
    number = tuple(int(part or 0) for part in match.groups())
    if number >= (_MARIADB if mariadb else _MYSQL):
        return None
    return f"the server is {'MariaDB' if mariadb else 'MySQL'} {version}, and {_NEEDED}"


def is_mariadb(version: str) -> bool:
    """Whether a server that gives this as its version is MariaDB."""
    return "mariadb" in version.lower()


def has_invisible_columns(version: str) -> bool:
    """Whether a server of this version can have columns that `SELECT *` leaves out."""
    match = _VERSION.match(version)
    if match is None or is_mariadb(version):
        return True
    return tuple(int(part or 0) for part in match.groups()) >= _INVISIBLE_COLUMNS


# Vitess: the keyspaces of a vtgate.
#
# A client's database is a keyspace. Tablets have a database with another name for it, by default `vt_` and the
# keyspace's name, and information_schema contains that name. For a query with `TABLE_SCHEMA = 'keyspace'` vtgate
# substitutes the tablet's name and queries a shard of the keyspace. Without it, it queries any tablet. Source:
# go/vt/vtgate/planbuilder/operators/info_schema_planning.go and go/vt/vtgate/executor.go of Vitess.

SHARDS = "SHOW VITESS_SHARDS"
"""One row for each shard: `keyspace/shard`."""

ALL_SHARDS = "[-]"
"""Behind a keyspace in USE: the statements that follow go to all of its shards as they are."""

_UNKNOWN_ERROR = 1105
"""The number of most errors of a vtgate."""

_NO_PRIMARY = re.compile(
    "no healthy tablet available|VT1400[23]|operation not allowed in state|tx engine can't accept new connections"
    "|(?:wrong|invalid) tablet type|code = Unavailable|is being resharded|primary is (?:not )?serving"
    "|primary buffer is full|buffer full|destination shard is missing|before failover finished"
)
"""Parts of what a vtgate says, by the number 1105, where a shard has no primary that serves. Source:
go/vt/vtgate/tabletgateway.go, go/vt/vtgate/buffer/buffer.go and go/vt/vterrors/constants.go of Vitess."""


_TOO_LARGE = 1153
"""Of a server itself, it is about a packet that it gets; of a vtgate, also about rows that a tablet sends it."""

_GRPC_MAX = re.compile(r"message larger than max \(\d+ vs\. (\d+)\)")


def keyspaces_of(rows: Iterable[tuple[object, ...]], database: str | None) -> Keyspaces:
    """The keyspaces, from the rows of SHARDS. `database`: that of the backend's URL."""
    shards: dict[str, tuple[str, ...]] = {}
    for row, *_ in rows:
        text = row.decode("utf-8", "replace") if isinstance(row, bytes) else str(row)
        keyspace, _, shard = text.rpartition("/")
        keyspace = keyspace or text
        shards[keyspace] = (*shards.get(keyspace, ()), shard)
    return Keyspaces(shards, keyspace_of(database) if database else None)


def unfit_database(keyspaces: Keyspaces) -> str | None:
    """Why the backend's URL cannot name this keyspace; None where it can."""
    own = keyspaces.own
    if own is None or not (shards := keyspaces.shards_of(own)):
        return None
    return (
        f"{having_shards(own, shards)}, and the tables of the proxy's own need one that is not"
        " sharded: name that in the URL; queues may be in all keyspaces"
    )


def is_not_known_yet(errno: int, message: str) -> bool:
    """Whether an error may be that of a table that vtgate will know in a moment."""
    return errno == _UNKNOWN_ERROR and message.rstrip().endswith("not found")


def answer_max_of(errno: int, message: str) -> int | None:
    """How many bytes a tablet may answer to a vtgate, from the error of a statement with more; None: of another."""
    match = _GRPC_MAX.search(message) if errno == _TOO_LARGE else None
    return int(match[1]) if match is not None else None


def is_without_primary(errno: int, message: str) -> bool:
    """Whether an error of a vtgate is that a shard has no primary that serves, as while it changes or is moved."""
    return errno == _UNKNOWN_ERROR and _NO_PRIMARY.search(message) is not None
