"""GET_LOCK and related functions: named locks of sessions, independent of any transaction."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from embedded.compile.errors import SqlError
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar

_POLL_SECONDS = 0.1  # how often a waiting GET_LOCK checks whether it was killed
_NAME_MAX = 64  # characters, MySQL's own limit


@dataclass(eq=False, slots=True)
class NamedLocks:
    """The locks of one database. A session may hold several, and one several times."""

    _owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def acquire(self, name: str, owner: int, seconds: float, context: CallContext) -> bool:
        """Wait for the lock; False when it was not free in time or the wait was killed."""
        deadline = None if seconds < 0 else time.monotonic() + seconds
        with self._changed:
            while not self._take(name, owner):
                timeout = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
                if timeout <= 0 or context.killed:
                    return False
                self._changed.wait(timeout)
        return True

    def release(self, name: str, owner: int) -> bool | None:
        """True: released. False: another session owns it. None: it is not locked."""
        with self._changed:
            holder, count = self._owners.get(name, (None, 0))
            if holder != owner:
                return None if holder is None else False
            if count > 1:
                self._owners[name] = (owner, count - 1)
            else:
                del self._owners[name]
                self._changed.notify_all()
            return True

    def release_all(self, owner: int) -> int:
        """Release all locks of a session; how many times it had locked."""
        with self._changed:
            names = [name for name, (holder, _) in self._owners.items() if holder == owner]
            count = sum(self._owners.pop(name)[1] for name in names)
            self._changed.notify_all()
            return count

    def holder(self, name: str) -> int | None:
        with self._changed:
            return self._owners.get(name, (None, 0))[0]

    def _take(self, name: str, owner: int) -> bool:
        holder, count = self._owners.get(name, (owner, 0))
        if holder != owner:
            return False
        self._owners[name] = (owner, count + 1)
        return True


def _checked(name: str) -> str:
    if not name or len(name) > _NAME_MAX:
        raise SqlError(3057, f"Incorrect user-level lock name '{name[:_NAME_MAX]}'.")
    return name.lower()


def _locks(context: CallContext) -> NamedLocks:
    assert isinstance(context.locks, NamedLocks)
    return context.locks


@scalar(deterministic=False)
def get_lock(context: CallContext, name: str, seconds: float) -> int:
    return int(_locks(context).acquire(_checked(name), context.owner, float(seconds), context))


@scalar(deterministic=False)
def release_lock(context: CallContext, name: str) -> int | None:
    released = _locks(context).release(_checked(name), context.owner)
    return None if released is None else int(released)


@scalar(deterministic=False)
def release_all_locks(context: CallContext) -> int:
    return _locks(context).release_all(context.owner)


@scalar(deterministic=False)
def is_free_lock(context: CallContext, name: str) -> int:
    return int(_locks(context).holder(_checked(name)) is None)


@scalar(deterministic=False)
def is_used_lock(context: CallContext, name: str) -> int | None:
    return _locks(context).holder(_checked(name))
