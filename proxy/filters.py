"""The WHERE of a stream, made ready for the engine on a MySQL server.

It is checked by the database itself on the client's own line, with the client's rights, and read by the engine's
connections under the client's settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from engine.errors import BackendError
from engine.model import Condition, QueueName
from proxy.session import ClientSession
from proxy.upstream import Collected, Outcome
from rewriter.errors import UnsupportedSql
from rewriter.literals import literal
from rewriter.plan import StreamFilter
from rewriter.session_variables import modes_without_reading_otherwise

MakeCondition = Callable[[ClientSession, QueueName, str, str], Awaitable[Condition]]
"""From the SQL of a filter, with its values in it, and its text to what the engine is asked for.

Raises ClientFault kinds: the database or the account does not allow it.
"""

SETTINGS = (
    "sql_mode",
    "time_zone",
    "collation_connection",
    "div_precision_increment",
    "lc_time_names",
    "default_week_format",
)
"""What of a session changes the value of an expression on a row. How text is cut into words is none of it: a filter
comes in words that read alike."""

_ASK = "SELECT " + ", ".join(f"@@{name}" for name in SETTINGS)


def filter_sql(chosen: StreamFilter, values: Sequence[object]) -> str:
    """The filter with its values put in. Raises UnsupportedSql where one cannot be written."""
    parts = [chosen.parts[0]]
    for value, part in zip(values, chosen.parts[1:], strict=True):
        parts += (literal(value), part)
    return "".join(parts)


def check_sql(queue: QueueName, sql: str) -> str:
    """What the database is asked on the client's line: it reads the condition as for any SELECT, and no row."""
    name = ".".join(f"`{part.replace('`', '``')}`" for part in (queue.database, queue.table))
    return f"SELECT 1 FROM {name} WHERE ({sql}) LIMIT 0"


async def server_condition(session: ClientSession, queue: QueueName, sql: str, text: str) -> Condition:
    """See MakeCondition; for MySQL and MariaDB."""
    values = [
        (value or b"").decode("utf-8", "replace") for value in (await _collected(session, _ASK)).row(len(SETTINGS))
    ]
    modes = values[0]
    if "ORACLE" in modes.upper().split(","):
        raise UnsupportedSql("WHERE in a stream is not supported with sql_mode ORACLE; set another")
    values[0] = modes_without_reading_otherwise(modes)
    await _collected(session, check_sql(queue, sql))
    return Condition(sql, tuple(zip(SETTINGS, values, strict=True)), text)


async def _collected(session: ClientSession, sql: str) -> Collected:
    result = await session.upstream.collect(sql)
    if isinstance(result, Outcome):
        raise BackendError(result.message or "no result", result.errno or 1105, result.sqlstate)
    return result
