"""Offsets of streaming queries, as stored in checkpoints: JSON with the name of the queue, to detect a wrong
checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spark_connector.errors import QueueError

VERSION = 1


@dataclass(frozen=True)
class MicroBatch:
    """The query and the number of a task's micro-batch, from Spark."""

    query: str  # an id, stored in the checkpoint
    number: int


@dataclass(frozen=True)
class QueueOffset:
    """mode=queue: claim number `seq` of the checkpoint's group; 0: before the first."""

    queue: str
    group: str
    seq: int = 0

    def json(self) -> dict[str, Any]:
        return {"v": VERSION, "queue": self.queue, "group": self.group, "seq": self.seq}


By = Literal["id", "number"]
"""The kind of a log's offsets: the ids of its messages, or their numbers in a topic."""


@dataclass(frozen=True)
class TailOffset:
    """mode=tail: everything up to `at`, inclusive, has been read.

    The other fields describe the micro-batch that ends here, because a repetition must be the same: before the first
    one is done Spark requests the initial offset again, and gets another one.
    """

    queue: str
    at: int  # an id, or a number
    since: int  # the micro-batch starts after that one
    count: int = 0  # number of messages; -1 in an initial offset
    seen: int = 0  # ns; messages beyond `at` were created after that, otherwise they would have been read
    history: int = 0  # the largest one when the query started
    by: By = "id"

    def json(self) -> dict[str, Any]:
        """The key of `at` is its kind, so that ids and numbers are not confused."""
        rest = {"since": self.since, "count": self.count, "seen": self.seen, "history": self.history}
        return {"v": VERSION, "queue": self.queue, self.by: self.at, **rest}


def queue_offset(json: Mapping[str, Any], queue: str) -> QueueOffset:
    """Reads an offset of mode=queue. Raises QueueError if it is from another queue, mode or version."""
    _belongs(json, queue, "group", "queue")
    return QueueOffset(queue, str(json["group"]), int(json["seq"]))


def tail_offset(json: Mapping[str, Any], queue: str) -> TailOffset:
    """Reads an offset of mode=tail. Raises QueueError if it is from another queue, mode or version."""
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
