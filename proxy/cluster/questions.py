"""Questions: requests of one process to all others, and the answers that it waits for; and the answers to their
requests."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from proxy.cluster.messages import portions

log = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0  # how long an answer is waited for: a process that is busy for longer is not well
ANSWER_ITEMS_MAX = 100_000  # more than any answer has; beyond it the rest is not taken

Item = list[Any]
Answer = Callable[[str, Any], Awaitable[Iterable[Item]]]


@dataclass(eq=False, slots=True)
class _Question:
    body: object
    waiting: set[int]
    done: asyncio.Future[None]
    items: list[Item] = field(default_factory=list)


class Questions:
    """Those that are open. `peers` names the other side in the log."""

    def __init__(self, peers: str) -> None:
        self._peers = peers
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def query(
        self, question: str, value: object, members: Collection[int], send: Callable[[object], None]
    ) -> list[Item]:
        """What all members answer; `send` sends them the body. Those that do not answer in time are left out."""
        if not members:
            return []
        number = next(self._numbers)
        pending = _Question([number, question, value], set(members), asyncio.get_running_loop().create_future())
        self._open[number] = pending
        try:
            send(pending.body)
            async with asyncio.timeout(ANSWER_SECONDS):
                await pending.done
        except TimeoutError:
            missing = sorted(pending.waiting)
            log.warning("no answer from %s", self._peers, extra={"question": question, "missing": missing})
        finally:
            del self._open[number]
        return pending.items

    def on_answer(self, sender: int, number: int, items: list[Item], more: bool) -> None:
        """A part of an answer came. One that comes too late is ignored."""
        question = self._open.get(number)
        if question is None or sender not in question.waiting:
            return
        question.items += items
        if not more or len(question.items) > ANSWER_ITEMS_MAX:
            question.waiting.discard(sender)
            self._finish_if_complete(question)

    def waiting_for(self, member: int) -> list[object]:
        """The bodies of those that it has yet to answer."""
        return [question.body for question in self._open.values() if member in question.waiting]

    def on_members_left(self, members: Collection[int]) -> None:
        """These are gone and will not answer."""
        for question in self._open.values():
            question.waiting.difference_update(members)
            self._finish_if_complete(question)

    def close(self) -> None:
        """No answer will come any more."""
        for question in self._open.values():
            done(question.done)

    def _finish_if_complete(self, question: _Question) -> None:
        if not question.waiting:
            done(question.done)


async def answer(reply: Callable[[object], None], make: Answer, number: int, question: str, value: Any) -> None:
    """Answer a peer's question; `reply` sends the body of one message."""
    try:
        for items in portions(await make(question, value)):
            reply([number, items, True])
    except Exception:
        log.exception("a question was not answered", extra={"question": question})
    reply([number, [], False])


def done(future: asyncio.Future[None]) -> None:
    """The future is done, if it was not."""
    if not future.done():
        future.set_result(None)
