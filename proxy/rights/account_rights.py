"""What an account of the proxy's own may do: everything, or certain things to certain queues and topics.

Rights are given by patterns of names; several that fit add up. On a topic and on the queue of a consumer group both
kinds of rights count: those on the table as on a queue (`queues`), and those on the topic (`topics`). Values only, but
for SessionRights, which knows what is a topic at the moment; `guard` and the executor ask that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from engine.model.queue import QueueCatalog, QueueName
from engine.model.topics import GroupName

# Names compared with patterns of wildcards, in a time that grows with the product of their lengths at most.


class Wildcard(Enum):
    """What of a pattern is not a character."""

    ONE = "one character"
    MANY = "any characters, or none"


def fits(name: str, pattern: Sequence[str | Wildcard]) -> bool:
    """Whether the whole name fits. Only the last MANY is ever tried again: an earlier one could gain nothing."""
    position = part = 0
    many, tried = -1, 0  # the last MANY in the pattern, and how far of the name it takes
    while position < len(name):
        wanted = pattern[part] if part < len(pattern) else None
        if wanted is Wildcard.MANY:
            many, tried = part, position
            part += 1
        elif wanted is Wildcard.ONE or wanted == name[position]:
            position += 1
            part += 1
        elif many >= 0:
            tried += 1
            position, part = tried, many + 1
        else:
            return False
    return all(pattern[rest] is Wildcard.MANY for rest in range(part, len(pattern)))


class Right(Enum):
    """ENQUEUE: INSERT. RECEIVE: SELECT ... FROM STREAM. SETTLE: ACK, and UPDATE and DELETE in the forms that settle."""

    ENQUEUE = "enqueue"
    RECEIVE = "receive"
    SETTLE = "settle"


class TopicRight(Enum):
    """PUBLISH: INSERT. READ: broadcasts, replays and lookups. CONSUME: to be a member of a group, and to settle there.
    MANAGE: CREATE, ALTER, SEEK and DROP of a group."""

    PUBLISH = "publish"
    READ = "read"
    CONSUME = "consume"
    MANAGE = "manage"


TOPIC_PERMISSIONS = "publish, read, consume:GROUP, manage:GROUP"
"""How rights on topics are written."""

_GROUP_PATTERN = re.compile(r"[\w*]+", re.ASCII)
_OF_GROUPS = (TopicRight.CONSUME, TopicRight.MANAGE)
_ON_TOPICS = {Right.ENQUEUE: TopicRight.PUBLISH, Right.RECEIVE: TopicRight.READ}
_ON_GROUPS = {Right.RECEIVE: TopicRight.CONSUME, Right.SETTLE: TopicRight.CONSUME}


R = TypeVar("R")


class InvalidPattern(ValueError):
    """The pattern names no queue. The message has the reason."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Names of tables, by their database and their own. `*` matches any characters; all else is compared exactly."""

    database: str
    table: str

    def fits(self, name: QueueName) -> bool:
        return fits(name.database, _pattern(self.database)) and fits(name.table, _pattern(self.table))


@lru_cache(maxsize=1024)
def _pattern(text: str) -> tuple[str | Wildcard, ...]:
    return tuple(Wildcard.MANY if letter == "*" else letter for letter in text)


@dataclass(frozen=True, slots=True)
class Grant(Generic[R]):
    """Rights on all queues, or topics, whose names fit."""

    names: NamePattern
    rights: frozenset[R]


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """One right on a topic. `groups`: of which consumer groups, a pattern; empty where it is a right on the topic."""

    right: TopicRight
    groups: str = ""

    @classmethod
    def parse(cls, text: str) -> TopicPermission:
        """As it is written. Raises ValueError."""
        permission, colon, groups = text.partition(":")
        right = TopicRight(permission)
        if bool(colon) != (right in _OF_GROUPS) or (colon and not _GROUP_PATTERN.fullmatch(groups)):
            raise ValueError(text)
        return cls(right, groups)

    def grants(self, right: TopicRight, group: str) -> bool:
        """Whether it is that right; of a group, on this one."""
        return self.right is right and (right not in _OF_GROUPS or fits(group, _pattern(self.groups)))


@dataclass(frozen=True, slots=True)
class QueueRights:
    """All grants of an account."""

    grants: tuple[Grant[Right], ...]
    topics: tuple[Grant[TopicPermission], ...] = ()

    def allows(self, queue: QueueName, right: Right) -> bool:
        return any(right in grant.rights and grant.names.fits(queue) for grant in self.grants)

    def can_see(self, queue: QueueName) -> bool:
        """Whether it may know of the queue: any right on it will do."""
        return any(grant.names.fits(queue) for grant in self.grants)

    def allows_on_topic(self, topic: QueueName, right: TopicRight, group: str = "") -> bool:
        """Whether it has that right on a topic, or on one of its consumer groups."""
        fitting = (grant for grant in self.topics if grant.names.fits(topic))
        return any(permission.grants(right, group) for grant in fitting for permission in grant.rights)

    def can_see_topic(self, topic: QueueName) -> bool:
        """Whether it may know of the topic: any right on it or on one of its consumer groups will do."""
        return any(grant.names.fits(topic) for grant in self.topics)

    def can_enter(self, database: str) -> bool:
        """Whether it may have that database as its current one."""
        grants: tuple[Grant[Right] | Grant[TopicPermission], ...] = (*self.grants, *self.topics)
        return any(fits(database, _pattern(grant.names.database)) for grant in grants)


class RequiredRight(NamedTuple):
    """A right as it is written, and on what."""

    permission: str
    on: str


class _Target(NamedTuple):
    """What a name is, as far as topics are concerned. `group` and `dead`: the queue of a consumer group, or that of its
    dead letters."""

    topic: QueueName
    group: str = ""
    dead: bool = False


class SessionRights:
    """The grants of an account, asked of what the current catalog has: a queue, a topic or a consumer group."""

    def __init__(self, granted: QueueRights, catalog: Callable[[], QueueCatalog]) -> None:
        self.granted = granted
        self._catalog = catalog

    def missing(self, name: QueueName, right: Right) -> RequiredRight | None:
        """The right that the account would need for this; None where it has it."""
        if self.granted.allows(name, right):
            return None
        target = self._target(name)
        needed = None if target is None else self._needed(target, right)
        if target is None or needed is None:
            return RequiredRight(right.value, f"queue '{name}'")
        if self.granted.allows_on_topic(target.topic, needed, target.group):
            return None
        if target.group:
            return RequiredRight(f"{needed.value}:{target.group}", f"topic '{target.topic}'")
        is_topic = name in self._catalog().topics
        return (
            RequiredRight(needed.value, f"topic '{name}'")
            if is_topic
            else RequiredRight(right.value, f"queue '{name}'")
        )

    def can_see(self, name: QueueName) -> bool:
        """Whether the account may know whether there is such a table, and what it is."""
        target = self._target(name)
        if target is None or self.granted.can_see(name):
            return self.granted.can_see(name)
        if not target.group:
            return self.granted.can_see_topic(target.topic)
        return any(self.granted.allows_on_topic(target.topic, right, target.group) for right in _OF_GROUPS)

    def missing_to_manage(self, group: GroupName) -> RequiredRight | None:
        """As `missing`, to make, alter, move or drop a consumer group."""
        if self.granted.allows_on_topic(group.topic, TopicRight.MANAGE, group.group):
            return None
        return RequiredRight(f"{TopicRight.MANAGE.value}:{group.group}", f"topic '{group.topic}'")

    def can_enter(self, database: str) -> bool:
        """See QueueRights."""
        return self.granted.can_enter(database)

    @staticmethod
    def _needed(target: _Target, right: Right) -> TopicRight | None:
        return None if target.dead else (_ON_GROUPS if target.group else _ON_TOPICS).get(right)

    def _target(self, name: QueueName) -> _Target | None:
        """What a name is; None for a queue. An unknown table may be a topic that someone has just made."""
        catalog = self._catalog()
        spec, dead = catalog.get(name), False
        if spec is not None and spec.options.dead_letter_of is not None:
            spec, dead = catalog.get(QueueName(name.database, spec.options.dead_letter_of)), True
        if spec is not None and spec.options.topic is not None:
            return _Target(QueueName(name.database, spec.options.topic), spec.options.consumer_group or "", dead)
        return None if dead or spec is not None or name in catalog.rejected else _Target(name)


@dataclass(frozen=True, slots=True)
class AccountRights:
    """`queues` None: it may do everything that the backend's own account may. `admin`: it may KILL others."""

    queues: QueueRights | None = None
    admin: bool = False


def queue_rights(
    queues: Mapping[str, Iterable[Right]],
    database: str | None,
    topics: Mapping[str, Iterable[TopicPermission]] | None = None,
) -> QueueRights:
    """Grants from patterns as the configuration writes them; `database` is meant by those that name none.

    Raises:
        InvalidPattern: with the pattern and what is wrong with it.
    """
    return QueueRights(_grants(queues, database, "queue"), _grants(topics or {}, database, "topic"))


def _grants(patterns: Mapping[str, Iterable[R]], database: str | None, of: str) -> tuple[Grant[R], ...]:
    return tuple(Grant(name_pattern(pattern, database, of), frozenset(rights)) for pattern, rights in patterns.items())


def name_pattern(pattern: str, database: str | None, of: str = "queue") -> NamePattern:
    """A pattern of names as it is written. Raises InvalidPattern."""
    parts = pattern.split(".")
    if len(parts) > 2 or not all(parts) or any(character.isspace() or character == "`" for character in pattern):
        raise InvalidPattern(f"'{pattern}' is not the name of a {of}, or database.name; '*' stands for anything")
    if len(parts) == 1:
        if database is None:
            raise InvalidPattern(f"'{pattern}' needs its database before it, for the backend's URL names none")
        parts = [database, *parts]
    return NamePattern(parts[0], parts[1])
