"""`queuegate` as a session's current database, though no server has one of that name.

At the server such a session is in `information_schema`, which every account may enter: so a name without a qualifier
means a system table, or nothing, and never a table of the database before. A server that does have a database of that
name is left alone.
"""

from __future__ import annotations

from mysql_wire.answer_walker import parse_err
from mysql_wire.errors import ProxyError
from proxy.errors import BackendLost
from proxy.transport.backend_socket import BackendSocket
from rewriter.text.queue_names import SYSTEM_DATABASE

SUBSTITUTE_DATABASE = "information_schema"
"""The server's database behind it."""

_NOT_THERE = (1044, 1049)  # with 1044 a server answers accounts that may not know whether there is one

_INIT_DB = b"\x02"


def is_system(database: str | None) -> bool:
    """Whether this names the database of the system tables."""
    return database is not None and database.lower() == SYSTEM_DATABASE


async def enter_at_login(backend: BackendSocket) -> bool:
    """Ask the server for its own database of that name, once the login is over. False: it has none.

    Raises:
        BackendLost: it gave no answer.
        ProxyError: it refused for another reason.
    """
    backend.seq = 0
    backend.write_packet(_INIT_DB + SYSTEM_DATABASE.encode())
    answer = await backend.read_packet()
    backend.seq = 0
    if answer.startswith(b"\x00"):
        return True
    if not answer.startswith(b"\xff"):
        raise BackendLost("the server answers COM_INIT_DB with neither OK nor an error")
    outcome = parse_err(answer)
    if outcome.errno not in _NOT_THERE:
        raise ProxyError(outcome.errno, outcome.message, outcome.sqlstate)
    return False
