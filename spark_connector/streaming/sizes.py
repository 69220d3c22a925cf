"""How many bytes messages have, asked of the database: for micro-batches that have a bound in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_connector.client.columns import Field
from spark_connector.client.connection import Client, quoted
from spark_connector.client.queue import Queue
from spark_connector.streaming.claims import literal

_FIXED = 8  # bytes of a number or a time: what it takes in Spark, about
_AT_ONCE = 200  # the database reads the messages to tell their sizes: no more of them than that in vain
_LONG = ("string", "binary")


class Sizes:
    """The sizes of a queue's messages, as far as these columns go."""

    def __init__(self, queue: Queue, fields: Sequence[Field]) -> None:
        self._table, self._by = quoted(queue.name), queue.offset
        long = [quoted(queue.column(field.name).name) for field in fields if field.type in _LONG]
        fixed = _FIXED * (len(fields) - len(long))
        self._size = " + ".join([str(fixed), *(f"COALESCE(LENGTH({name}), 0)" for name in long)])

    def fitting(self, client: Client, ids: Sequence[Any], room: int) -> tuple[int, int]:
        """How many of these messages, in this order, have no more bytes than that; and how many bytes they have.

        `ids`: their numbers, of a topic that has numbers.
        """
        count, total = 0, 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            texts = ", ".join(map(literal, some))
            sql = f"SELECT {self._by}, {self._size} FROM {self._table} WHERE {self._by} IN ({texts})"
            sizes: dict[Any, Any] = dict(client.rows(sql))
            for id_ in some:
                size = int(sizes.get(id_, 0))  # none: deleted in this moment
                if total + size > room:
                    return count, total
                count, total = count + 1, total + size
        return count, total
