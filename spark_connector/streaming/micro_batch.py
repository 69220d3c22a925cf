"""The micro-batch that a task is part of, by Spark's numbering."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MicroBatch:
    """The query and the number of a task's micro-batch, from Spark."""

    query: str  # an id, stored in the checkpoint
    number: int
