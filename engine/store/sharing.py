"""Sharing: how those who are handed the messages of a claim will hold them, which the leases say in queues whose
attempts are bounded (engine.model.states). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.model.queue import MessageId


@dataclass(frozen=True, slots=True)
class Sharing:
    """Of one claim. `takers`: so many receivers, each of which holds nothing, will share what is leased evenly; 0: that
    is not so. `lone`: of these messages it is known that each will be the only one of its receiver. `alone`: they will
    be until they have ended, for these receivers get nothing more; only such a claim leases what is to be handed out
    alone. `marks` is false where attempts are not bounded: nothing of this is then asked, or written."""

    takers: int = 0
    lone: frozenset[MessageId] = frozenset()
    alone: bool = False
    marks: bool = True

    def held_alone(self, ids: Collection[MessageId]) -> Collection[MessageId]:
        """Those of `ids`, which are leased, that their receivers will hold beside nothing else."""
        return ids if not self.marks or len(ids) <= self.takers else self.lone


UNMARKED = Sharing(marks=False)
