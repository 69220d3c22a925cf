"""Vitess: the keyspaces of a vtgate.

A client's database is a keyspace. Tablets have a database with another name for it, by default `vt_` and the keyspace's
name, and information_schema contains that name. For a query with `TABLE_SCHEMA = 'keyspace'` vtgate substitutes the
tablet's name and queries a shard of the keyspace. Without it, it queries any tablet.
Source: go/vt/vtgate/planbuilder/operators/info_schema_planning.go and go/vt/vtgate/executor.go of Vitess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SHARDS = "SHOW VITESS_SHARDS"
"""One row for each shard: `keyspace/shard`."""

NOT_KNOWN_YET = 1105
"""The error of a table that was created a moment ago, and that vtgate does not know yet."""


def shards_of(rows: Iterable[tuple[object, ...]]) -> dict[str, int]:
    """How many shards each keyspace has, from the rows of SHARDS."""
    counts: dict[str, int] = {}
    for shard, *_ in rows:
        text = shard.decode("utf-8", "replace") if isinstance(shard, bytes) else str(shard)
        keyspace = text.rpartition("/")[0] or text
        counts[keyspace] = counts.get(keyspace, 0) + 1
    return counts


def unfit_keyspaces(shards: Mapping[str, int]) -> dict[str, str]:
    """Why keyspaces cannot have queues, by their names: ids are a shard's own, so an ACK would end one in each."""
    return {
        keyspace: f"the keyspace '{keyspace}' has {count} shards, and a queue needs one that is not sharded"
        for keyspace, count in shards.items()
        if count > 1
    }


def is_not_known_yet(errno: int, message: str) -> bool:
    """Whether an error may be that of a table that vtgate will know in a moment."""
    return errno == NOT_KNOWN_YET and message.rstrip().endswith("not found")
