"""Acks of what handlers have done outside a transaction, by one thread with one connection.

A slot does not wait for the ack of its message: it begins with the next one. The acks that come while a statement is on
its way go together with the next statement. So a lone ack is sent at once, and many cost few statements and few
commits. Where a handler has used its transaction, the ack is part of that, and this is not asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import assert_never

from queuegate_worker.hooks import Hooks, notify
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Lost, Outcome, Rejected, Released, Succeeded, outcome_by_handler
from queuegate_worker.settler import Settler, or_left_to_leases
from queuegate_worker.shared import Shared

logger = logging.getLogger("queuegate_worker")

_TOGETHER_MAX = 500  # messages


@dataclass(frozen=True, slots=True)
class Handled:
    """Messages of one call of the handler, which took so many seconds."""

    messages: Sequence[Message]
    seconds: float


class Acker:
    """See the module."""

    def __init__(self, settler: Settler, shared: Shared) -> None:
        self._settler, self._shared = settler, shared
        self._handled: SimpleQueue[Handled | None] = SimpleQueue()

    def put(self, handled: Handled) -> None:
        """These are to be acked. Returns at once."""
        self._shared.free_slots.defer()
        self._handled.put(handled)

    def end(self) -> None:
        """Have `run` return, once what was put before is acked."""
        self._handled.put(None)

    def run(self) -> None:
        """Ack until `end`."""
        for group in self._groups():
            self._ack(group)
        self._settler.close()

    def _groups(self) -> Iterator[list[Handled]]:
        """What has come meanwhile, again and again."""
        while (first := self._handled.get()) is not None:
            group, messages = [first], len(first.messages)
            while messages < _TOGETHER_MAX:
                try:
                    following = self._handled.get_nowait()
                except Empty:
                    break
                if following is None:
                    self._handled.put(None)
                    break
                group.append(following)
                messages += len(following.messages)
            yield group

    def _ack(self, group: Sequence[Handled]) -> None:
        messages = [message for handled in group for message in handled.messages]
        left = [message for message in messages if message.lease.settled_by_handler is None]
        try:
            outcomes = or_left_to_leases(lambda: self._settler.ack_all(left), messages, self._shared.fail)
        finally:
            self._shared.in_flight.remove(messages)
            self._shared.free_slots.settled(len(group))
        if outcomes is None:
            return
        acked = iter(outcomes)
        for handled in group:
            for message in handled.messages:
                settled = message.lease.settled_by_handler
                outcome = next(acked) if settled is None else outcome_by_handler(settled)
                report(self._shared.hooks, message, outcome, handled.seconds)


def report(hooks: Hooks, message: Message, outcome: Outcome, seconds: float) -> None:
    """Tell the hooks, and the log where somebody should look."""
    match outcome:
        case Succeeded():
            notify(lambda: hooks.succeeded(message, seconds))
        case Failed(error=error):
            notify(lambda: hooks.failed(message, error, seconds))
        case Rejected(reason=reason):
            logger.warning("message %r of %s is rejected: %s", message.id, message.queue, reason)
            notify(lambda: hooks.rejected(message, reason, seconds))
        case Released():
            notify(lambda: hooks.released(message))
        case Lost():
            logger.warning(
                "message %r of %s was lost: its delivery was over before it was settled", message.id, message.queue
            )
            notify(lambda: hooks.lost(message))
        case _:
            assert_never(outcome)
