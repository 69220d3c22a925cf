"""The micro-batch that a task is part of, as Spark counts it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MicroBatch:
    """What Spark tells a task of the micro-batch that it is part of."""

    query: str  # an id, which the checkpoint keeps
    number: int
