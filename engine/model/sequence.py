"""Sequence numbers of topics: whether a database supports them, and the result of a numbering step.

Where several servers assign ids, ids have no order. There a message gets a number once it is committed, and readers use
the numbers: ADR 13 has the protocol and the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Sequencing(Enum):
    """How a database supports the option `sequence` of a topic."""

    NEEDED = "several servers give ids: without it a topic has no consumer groups and no broadcasts"
    POSSIBLE = "one server gives ids"
    ONE_WRITER = (
        "sequence: the embedded backend writes one transaction at a time, so its ids are in the order of the commits;"
        " leave the option out"
    )
    TOO_OLD = "sequence: this server has no invisible columns; it takes MySQL 8.0.23 or later, or MariaDB"

    __hash__ = object.__hash__  # as engine.model.pins

    @property
    def refusal(self) -> str | None:
        """Why no topic can have the option here; None where one can."""
        return self.value if self in (Sequencing.ONE_WRITER, Sequencing.TOO_OLD) else None


@dataclass(frozen=True, slots=True)
class NumberingResult:
    """The result of one step. `count`: messages that got a number. `more`: others can get one now. `waiting`: others
    cannot, for a client has locked them, or another proxy was faster."""

    count: int = 0
    more: bool = False
    waiting: bool = False
