"""An exchange: statements on their way on a connection that the event loop waits for, in place of a thread.

A thread is woken for each statement, sleeps until the answer comes, and wakes the loop: for a single statement on an
otherwise idle machine that takes longer than the server does. Where more is to be done than one round trip, a thread is
simpler, and costs no more.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from engine.backend.base import Answer
from engine.model.errors import BackendUnavailable


class Exchange(Protocol):
    """What a connection is asked, and what has come of the answers. `socket`: the number of its file. `seconds`: how
    long to wait for them."""

    socket: int
    seconds: float

    def receive(self) -> list[Answer] | None:
        """Read what has come, without waiting: the answers, or None where there is more to come.

        Raises:
            BackendError: a statement failed, or the connection is lost.
        """
        ...

    def expired(self) -> BackendUnavailable:
        """The answers did not come in time: the error for that."""
        ...


async def wait_for_answers(exchange: Exchange) -> list[Answer]:
    """The answers. A caller that is cancelled leaves the connection in the middle of them: it must be closed.

    Raises:
        BackendError: a statement failed, or the connection is lost.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[list[Answer]] = loop.create_future()

    def receive() -> None:
        if answered.done():
            return
        try:
            answers = exchange.receive()
        except Exception as error:  # whoever waits shall have it
            answered.set_exception(error)
        else:
            if answers is not None:
                answered.set_result(answers)

    def expire() -> None:
        receive()  # a process that stood still finds them late, and in time
        if not answered.done():
            answered.set_exception(exchange.expired())

    loop.add_reader(exchange.socket, receive)
    timer = loop.call_later(exchange.seconds, expire)
    try:
        return await answered
    finally:
        timer.cancel()
        loop.remove_reader(exchange.socket)
