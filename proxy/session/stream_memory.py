"""StreamMemory: what the database has said about this session's streams, so that a client that polls does not have it
asked again each time.

Rules
- Only what lets a stream go on is remembered: an account that was refused is refused by the database each time.
- It holds for the catalog in which it was learned, and for REMEMBERED_SECONDS: an account that loses its right receives
  for so long at most, as an open stream does for `stream_watch.RIGHTS_SECONDS`.
- All is forgotten with a statement that may change the character set or the role.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.model.queue import QueueCatalog, QueueName

REMEMBERED_SECONDS = 10.0
_RIGHTS_MAX = 100  # queues, with the columns of a stream, for one session


@dataclass(slots=True)
class StreamMemory:
    """See the module. Times are in seconds of one monotonic clock."""

    _catalog: QueueCatalog | None = None
    _rights: dict[tuple[QueueName, tuple[str, ...]], float] = field(default_factory=dict)
    _charset: tuple[str | None, float] | None = None

    def may_receive(self, queue: QueueName, columns: tuple[str, ...], catalog: QueueCatalog, now: float) -> bool:
        """Whether the account was found to have the rights for such a stream a short time ago."""
        return catalog is self._catalog and now < self._rights.get((queue, columns), now)

    def receives(self, queue: QueueName, columns: tuple[str, ...], catalog: QueueCatalog, now: float) -> None:
        """It has these rights, as the database said after `now`."""
        if catalog is not self._catalog or len(self._rights) >= _RIGHTS_MAX:
            self._catalog, self._rights = catalog, {}
        self._rights[queue, columns] = now + REMEMBERED_SECONDS

    def charset(self, now: float) -> tuple[str | None] | None:
        """The character set of results, in a tuple, as `set_charset` got it; None: it is not known."""
        return None if self._charset is None or now >= self._charset[1] else self._charset[:1]

    def set_charset(self, charset: str | None, now: float) -> None:
        """The character set of results is this; None: they are not converted."""
        self._charset = charset, now + REMEMBERED_SECONDS

    def forget(self) -> None:
        """A statement may have changed the character set, or the account's role."""
        self._catalog, self._rights, self._charset = None, {}, None
