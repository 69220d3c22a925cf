"""Sharing: how the receivers of a claim will share its messages. In queues with bounded attempts the leases record this
(engine.model.states). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.model.queue import MessageId


@dataclass(frozen=True, slots=True)
class Sharing:
    """For one claim. `receivers`: how many receivers without messages will share the leased ones evenly; 0: that
    is not the case. `lone`: the messages each of which is known to be its receiver's only one. `alone`: they stay the
    only ones until they are settled, because these receivers get nothing more; only such a claim leases messages that
    must be delivered alone. `marks` is false where attempts are not bounded: then none of this is used or written."""

    receivers: int = 0
    lone: frozenset[MessageId] = frozenset()
    alone: bool = False
    marks: bool = True

    def leased_alone(self, ids: Collection[MessageId]) -> Collection[MessageId]:
        """Those of the leased `ids` whose receivers will have no other message."""
        return ids if not self.marks or len(ids) <= self.receivers else self.lone


UNMARKED = Sharing(marks=False)
