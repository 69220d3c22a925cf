"""Which queue a written name refers to.

A name is compared exactly first; if no queue has exactly that name, the only one that differs in case alone is meant,
because some backends (SQLite, MySQL with lower_case_table_names) do not distinguish them. Where a backend does, that is
so in queuegate's own statements only: in ordinary SQL the name is another table's.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.queue import QueueCatalog, QueueName
from rewriter.text.lexis import WORDS, unquote

SYSTEM_DATABASE = "queuegate"
"""The database that the tables of the proxy itself are in; no server has to have it."""

_SEARCH_MAX = 65536  # bytes in which names are searched; a longer text counts as naming every queue

UNKNOWN_DATABASE = "\x00"
"""The default database of a session that ran text of its own making: it is queried when a name depends on it."""


class Undecidable(Exception):
    """The name has bytes that only the client's charset can read, and there are queues with such names; or it may be
    a queue's, if only the default database were known."""


class QueueNames:
    """The names of a catalog's queues, indexed once for many look-ups."""

    def __init__(self, catalog: QueueCatalog) -> None:
        self._topics = frozenset(catalog.topics)
        self._queues = frozenset((*catalog.queues, *catalog.unfit)) | self._topics
        self._exact_names = catalog.exact_names
        self._marked = self._queues | frozenset(catalog.rejected)
        self._by_table: dict[str, list[QueueName]] = {}
        for name in sorted(self._marked):
            self._by_table.setdefault(name.table.lower(), []).append(name)
        self._keys = frozenset(table.encode() for table in self._by_table)
        self._has_non_ascii = any(not key.isascii() for key in self._keys)
        odd = [key for key in self._keys if WORDS.fullmatch(key) is None]
        self._quoted = [(key.replace(quote, quote * 2), key) for key in odd for quote in (b"`", b'"')]

    @property
    def all_queues(self) -> frozenset[QueueName]:
        """Queues and topics."""
        return self._queues

    @property
    def topics(self) -> frozenset[QueueName]:
        """The topics among them."""
        return self._topics

    def resolve(self, database: str, table: str, *, ordinary: bool = False) -> QueueName | None:
        """The marked table (queue or rejected) of that name. `ordinary`: in ordinary SQL."""
        exact = QueueName(database, table)
        if exact in self._marked:
            return exact
        if ordinary and self._exact_names:
            return None
        lowered = database.lower()
        near = [n for n in self._by_table.get(table.lower(), ()) if n.database.lower() == lowered]
        return near[0] if len(near) == 1 else None

    def queue(self, first: bytes, second: bytes | None, database: str | None) -> QueueName | None:
        """The queue or topic that `first` (or `first`.`second`), as written in a client's text, names.

        Raises:
            Undecidable: see the class.
        """
        written = second or first
        if written[:1] in b'`"':
            written = unquote(written)
        if written.lower() not in self._keys and (not self._has_non_ascii or written.isascii()):
            return None
        try:
            qualifier = unquote(first).decode() if second else database
            if qualifier == UNKNOWN_DATABASE:
                raise Undecidable
            match = None if qualifier is None else self.resolve(qualifier, written.decode(), ordinary=True)
        except UnicodeDecodeError as error:
            raise Undecidable from error
        if match is None and self._has_non_ascii and not written.isascii():
            raise Undecidable
        return match if match in self._queues else None

    def mentioned(self, sql: bytes) -> frozenset[QueueName]:
        """Every marked table whose name occurs in the text, in whatever role or database; in a long text, all."""
        if not self._keys:
            return frozenset()
        if len(sql) > _SEARCH_MAX:
            return self._marked
        lowered = sql.lower()
        if self._has_non_ascii and not sql.isascii():
            return self._marked
        keys = self._keys.intersection(WORDS.findall(lowered))
        keys = keys.union(key for written, key in self._quoted if written in lowered)
        return frozenset(self._names(keys))

    def _names(self, keys: Iterable[bytes]) -> Iterable[QueueName]:
        for key in keys:
            yield from self._by_table[key.decode()]
