"""`queuegate` as a session's current database, though no server has one of that name.

At the server such a session is in `information_schema`, which every account may enter: so a name without a qualifier
means a system table, or nothing, and never a table of the database before. A server that does have a database of that
name is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import BackendLost, ProxyError
from proxy.transport.backend_socket import BackendLink
from proxy.wire.answer_walker import parse_err
from proxy.wire.outcome import Outcome
from rewriter.text.queue_names import SYSTEM_DATABASE

if TYPE_CHECKING:
    from proxy.session.session import ClientSession
    from proxy.statements.executor import Executor

STANDS_IN = "information_schema"
"""The server's database behind it."""

_NOT_THERE = (1044, 1049)  # with 1044 a server answers accounts that may not know whether there is one
_INIT_DB = b"\x02"


def is_system(database: str | None) -> bool:
    """Whether this names the database of the system tables."""
    return database is not None and database.lower() == SYSTEM_DATABASE


async def enter_at_login(link: BackendLink) -> bool:
    """Ask the server for its own database of that name, once the login is over. False: it has none.

    Raises:
        BackendLost: it gave no answer.
        ProxyError: it refused for another reason.
    """
    link.seq = 0
    link.write_packet(_INIT_DB + SYSTEM_DATABASE.encode())
    answer = await link.read_packet()
    link.seq = 0
    if answer.startswith(b"\x00"):
        return True
    if not answer.startswith(b"\xff"):
        raise BackendLost("the server answers COM_INIT_DB with neither OK nor an error")
    outcome = parse_err(answer)
    if outcome.errno not in _NOT_THERE:
        raise ProxyError(outcome.errno, outcome.message, outcome.sqlstate)
    return False


async def enter(executor: Executor) -> Outcome | None:
    """USE queuegate, answered; None where the server has such a database, or the account is limited to its queues."""
    session = executor.session
    if session.rights is not None or await executor.real_system_database():
        return None
    outcome = await session.upstream.collect(f"USE {STANDS_IN}")
    assert isinstance(outcome, Outcome)
    if not outcome.ok:
        raise outcome.failure()
    executor.note(outcome)
    session.stand_in()
    await session.writer.ok()
    return outcome


def database_at_server(session: ClientSession) -> str | None:
    """The session's current database as the server knows it."""
    return STANDS_IN if session.stands_in and session.database == SYSTEM_DATABASE else session.database


def take_told(session: ClientSession, told: str) -> None:
    """The session's current database is what the server says of it."""
    if session.stands_in and told == STANDS_IN:
        session.stand_in()
    else:
        session.entered(told or None)
