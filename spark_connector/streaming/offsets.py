"""Where a streaming query stands, as its checkpoint keeps it: JSON that names its queue, so that no other's serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spark_connector.errors import QueueError

VERSION = 1


@dataclass(frozen=True)
class QueueOffset:
    """mode=queue: claim number `seq` of the group that the checkpoint stands for; 0 is before the first."""

    queue: str
    group: str
    seq: int = 0

    def json(self) -> dict[str, Any]:
        return {"v": VERSION, "queue": self.queue, "group": self.group, "seq": self.seq}


By = Literal["id", "number"]
"""What the offsets of a log are: the ids of its messages, or the numbers that a topic gives them."""


@dataclass(frozen=True)
class TailOffset:
    """mode=tail: everything up to `at`, it included, has been read.

    The rest is about the micro-batch that ends here, for it must be the same when it is repeated: before the first one
    is done Spark asks anew where the query begins, and gets another answer.
    """

    queue: str
    at: int  # an id, or a number
    since: int  # the micro-batch has what is beyond that one
    count: int = 0  # so many messages; -1 where a query begins
    seen: int = 0  # ns; a message beyond `at` was made after that, or it would have been read
    history: int = 0  # the largest one there was when the query began
    by: By = "id"

    def json(self) -> dict[str, Any]:
        """`at` stands under the name of what it is: so neither is ever taken for the other."""
        rest = {"since": self.since, "count": self.count, "seen": self.seen, "history": self.history}
        return {"v": VERSION, "queue": self.queue, self.by: self.at, **rest}


def queue_offset(json: Mapping[str, Any], queue: str) -> QueueOffset:
    """Reads an offset of mode=queue. Raises QueueError where it is of another queue, mode or version."""
    _belongs(json, queue, "group", "queue")
    return QueueOffset(queue, str(json["group"]), int(json["seq"]))


def tail_offset(json: Mapping[str, Any], queue: str) -> TailOffset:
    """Reads an offset of mode=tail. Raises QueueError where it is of another queue, mode or version."""
    _belongs(json, queue, "since", "tail")
    by: By = "number" if "number" in json else "id"
    rest = {name: int(json[name]) for name in ("since", "count", "seen", "history")}
    return TailOffset(queue, int(json[by]), by=by, **rest)


def _belongs(json: Mapping[str, Any], queue: str, mark: str, mode: str) -> None:
    other = "give this query a checkpointLocation of its own"
    if "sources" in json:
        raise QueueError(f"the checkpoint belongs to a query of several, not of {queue!r} alone: {other}")
    if json.get("queue") != queue:
        raise QueueError(f"the checkpoint belongs to queue {json.get('queue')!r}, not {queue!r}: {other}")
    if json.get("v") != VERSION:
        raise QueueError(f"the checkpoint has offsets of version {json.get('v')}, this is version {VERSION}: {other}")
    if mark not in json:
        raise QueueError(f"the checkpoint of queue {queue!r} was not written with mode={mode}: {other}")
