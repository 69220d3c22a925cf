"""Keyspaces: the databases of a Vitess, and the shards of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Keyspaces:
    """See the module. Empty at any other server. `shards`: the names of each keyspace's shards, in order. `own`: the
    keyspace of the backend's URL, which has the tables of the proxy's own; None where the URL names none."""

    shards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: str | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.shards))

    def __len__(self) -> int:
        return len(self.shards)

    def __contains__(self, name: object) -> bool:
        return name in self.shards

    def shards_of(self, name: str) -> tuple[str, ...]:
        """The shards of a keyspace that has several; empty for any other database."""
        shards = self.shards.get(name, ())
        return shards if len(shards) > 1 else ()

    @property
    def whole(self) -> list[str]:
        """Those that are not sharded."""
        return [name for name in self if not self.shards_of(name)]


NO_KEYSPACES = Keyspaces()


def at_shard(keyspace: str, shard: str) -> str:
    """The name by which a session of a vtgate uses one shard: what it sends goes there as it is."""
    return f"{keyspace}:{shard}"


def keyspace_of(database: str) -> str:
    """The keyspace in the name of a database, which may also have a shard or a kind of tablet (`ks:-80@primary`)."""
    return database.partition(":")[0].partition("@")[0]
