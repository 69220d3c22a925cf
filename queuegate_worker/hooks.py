"""What a worker reports while it works, for metrics and traces. It depends on none of their libraries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from queuegate_worker.message import Message

logger = logging.getLogger("queuegate_worker")


class Hooks:
    """Subclass it and override the methods that are needed. The methods are called in the worker's threads, and have to
    be quick.

    An exception in a hook is logged, and changes nothing. `seconds` is how long the handler ran.
    """

    def receiving(self) -> None:
        """The worker is connected and receives: at its start, and again after `reconnecting`."""

    def received(self, messages: Sequence[Message]) -> None:
        """Messages were received and go to handlers now."""

    def handling(self, messages: Sequence[Message]) -> AbstractContextManager[object]:
        """Entered before the handler runs and exited after it, in its thread or task; the handler's exception passes
        through."""
        return nullcontext()

    def succeeded(self, message: Message, seconds: float) -> None:
        """It was handled, and its ack is committed."""

    def failed(self, message: Message, error: BaseException, seconds: float) -> None:
        """The handler failed, or asked for a retry: it was nacked with the error, and comes again."""

    def rejected(self, message: Message, reason: str, seconds: float) -> None:
        """The handler rejected it: it goes to the dead letters."""

    def released(self, message: Message) -> None:
        """It was given back; the delivery does not count."""

    def lost(self, message: Message) -> None:
        """Its lease was lost, and the handler's transaction was rolled back: another receiver has it, or had it."""

    def reconnecting(self, error: BaseException, seconds: float) -> None:
        """The proxy could not be reached; the next attempt is in `seconds` seconds."""


def notify(hook: Callable[[], object]) -> None:
    """Call a hook; its failure is logged and goes no further."""
    try:
        hook()
    except Exception:
        logger.exception("a hook failed")
