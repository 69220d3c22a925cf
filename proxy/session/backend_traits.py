"""BackendTraits: what differs between backends for the statements of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from engine.model.queue import Condition, QueueName
from proxy.session.session import ClientSession
from rewriter.plan import (
    StreamFilter,
)

MakeCondition = Callable[[ClientSession, QueueName, StreamFilter, Sequence[object], int | None], Awaitable[Condition]]
"""From a filter and its values to the engine's condition; the last: see StatementPins.waiting.

Raises ClientFault kinds: the database or the account does not allow it.
"""


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What differs between backends for the executor.

    `accounts`: the database knows the client and its rights. `one_account`: a server, all of whose connections have the
    backend's own account. `condition`: makes a stream's WHERE. `check_stream`: refuses a stream in a state of the
    session in which nothing could be delivered. `partitions`: whether its tables can have them.
    `holds_writer`: whether the session's transaction blocks all other writers, where one can.
    """

    accounts: bool
    condition: MakeCondition
    one_account: bool = False
    check_stream: Callable[[ClientSession], None] | None = None
    partitions: bool = True
    holds_writer: Callable[[ClientSession], bool] | None = None
