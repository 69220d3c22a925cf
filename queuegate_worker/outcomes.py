"""The outcome of a delivery: a closed union."""

from __future__ import annotations

from dataclasses import dataclass

from queuegate_worker.errors import LeaseLost, Reject, Release, Retry, check_delay, reason_of
from queuegate_worker.message import Settled


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Acked."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nacked: it comes again after `delay` seconds; None: after the queue's backoff."""

    error: BaseException
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """On its way to the dead letters."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Given back, due after `delay` seconds; the delivery does not count."""

    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """Another receiver has it. Nothing was settled."""


Outcome = Succeeded | Failed | Rejected | Released | Lost


def outcome_of(error: BaseException) -> Outcome:
    """The outcome for the messages of a handler that raised this exception. With a delay that cannot be it is a failure
    like any other, with that as its reason."""
    if isinstance(error, Retry | Release):
        try:
            check_delay(error)
        except Exception as impossible:  # a subclass may make it when it is read
            return Failed(impossible)
    match error:
        case Reject():
            return Rejected(reason_of(error))
        case Retry():
            return Failed(error, error.delay)
        case Release(delay=delay):
            return Released(delay)
        case LeaseLost():
            return Lost()
        case _:
            return Failed(error)


def outcome_by_handler(settled: Settled) -> Outcome:
    """The outcome for a message that its handler has settled itself."""
    match settled.verb:
        case "ACK":
            return Succeeded()
        case "REJECT":
            return Rejected(settled.reason)
        case _:
            return Failed(Retry(settled.reason))
