"""What an account of the proxy's own may do: everything, or certain things to certain queues.

Rights are given by patterns of queue names; several that fit add up. Values only; `guard` and the executor ask them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from engine.model.queue import QueueName
from proxy.login.wildcards import Wildcard, fits


class Right(Enum):
    """ENQUEUE: INSERT. RECEIVE: SELECT ... FROM STREAM. SETTLE: ACK, and UPDATE and DELETE in the forms that settle."""

    ENQUEUE = "enqueue"
    RECEIVE = "receive"
    SETTLE = "settle"


class InvalidPattern(ValueError):
    """The pattern names no queue. The message says why."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on all queues whose database and name fit. `*` stands for any characters; all else is compared exactly."""

    database: str
    table: str
    rights: frozenset[Right]

    def fits(self, queue: QueueName) -> bool:
        return fits(queue.database, _pattern(self.database)) and fits(queue.table, _pattern(self.table))


@lru_cache(maxsize=1024)
def _pattern(text: str) -> tuple[str | Wildcard, ...]:
    return tuple(Wildcard.MANY if letter == "*" else letter for letter in text)


@dataclass(frozen=True, slots=True)
class QueueRights:
    """All grants of an account."""

    grants: tuple[Grant, ...]

    def holds(self, queue: QueueName, right: Right) -> bool:
        return any(right in grant.rights and grant.fits(queue) for grant in self.grants)

    def sees(self, queue: QueueName) -> bool:
        """Whether it may know of the queue: any right on it will do."""
        return any(grant.fits(queue) for grant in self.grants)

    def enters(self, database: str) -> bool:
        """Whether it may have that database as its current one."""
        return any(fits(database, _pattern(grant.database)) for grant in self.grants)


@dataclass(frozen=True, slots=True)
class AccountRights:
    """`queues` None: it may do everything that the backend's own account may. `admin`: it may KILL others."""

    queues: QueueRights | None = None
    admin: bool = False


def queue_rights(given: Mapping[str, Iterable[Right]], database: str | None) -> QueueRights:
    """Grants from patterns as the configuration writes them; `database` is meant by those that name none.

    Raises:
        InvalidPattern: with the pattern and what is wrong with it.
    """
    return QueueRights(tuple(_grant(pattern, rights, database) for pattern, rights in given.items()))


def _grant(pattern: str, rights: Iterable[Right], database: str | None) -> Grant:
    parts = pattern.split(".")
    if len(parts) > 2 or not all(parts) or any(character.isspace() or character == "`" for character in pattern):
        raise InvalidPattern(f"'{pattern}' is not the name of a queue, or database.name; '*' stands for anything")
    if len(parts) == 1:
        if database is None:
            raise InvalidPattern(f"'{pattern}' needs its database before it, for the backend's URL names none")
        parts = [database, *parts]
    return Grant(parts[0], parts[1], frozenset(rights))
