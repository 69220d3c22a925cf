"""The WHERE of a stream, made ready for the engine on a MySQL server.

It is checked by the database itself on the client's own connection, with the client's rights, and read by the engine's
connections under the client's settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from engine.backend.base import StorePool
from engine.model.errors import BackendError, EngineError
from engine.model.queue import Condition, QueueName, TopicSpec
from proxy.rights.variables import without_parsing_modes
from proxy.session.session import ClientSession
from proxy.upstream.base import QUESTION, accepted, collected
from proxy.upstream.repeats import stands_alone
from rewriter.errors import RewriteError, UnsupportedSql
from rewriter.grammar.condition_words import missing_functions
from rewriter.plan import StreamFilter
from rewriter.plans.topics import group_filter
from rewriter.text.literals import string_literal, typed_literal
from rewriter.text.tokens import Kind, TokenCursor

SECONDS_MAX = 10
"""The time that a poll or a claim with a condition may take."""

SETTINGS = (
    "sql_mode",
    "time_zone",
    "collation_connection",
    "div_precision_increment",
    "lc_time_names",
    "default_week_format",
)
"""The settings of a session that change the value of an expression on a row. Those of the parser are not among them: a
filter is written so that it is parsed the same under all of them."""

_END = ") LIMIT 0"
_READ_SETTINGS = "SELECT " + ", ".join(f"@@{name}" for name in ("version", *SETTINGS))


def filter_sql(parts: Sequence[str], values: Sequence[object]) -> str:
    """The filter with its values put in. Raises UnsupportedSql where one cannot be written."""
    pieces = [parts[0]]
    for value, part in zip(values, parts[1:], strict=True):
        pieces += (typed_literal(value), part)
    return "".join(pieces)


def check_sql(queue: QueueName, chosen: StreamFilter, values: Sequence[object]) -> str:
    """The query on the client's connection: it reads the condition as for any SELECT, and no row."""
    sql = filter_sql(chosen.parts if chosen.session_parts is None else chosen.session_parts, values)
    return f"SELECT 1 FROM {queue.sql} WHERE ({sql}{_END}"


def of_condition(error: BackendError) -> BackendError:
    """The same without the end of that query, which a database quotes where the condition is incomplete."""
    return BackendError(error.message.replace(f"{_END}'", "'"), error.errno, error.sqlstate)


async def ask(session: ClientSession, sql: str, lock_seconds: int | None = None) -> None:
    """Have the database say, on the client's connection, whether its account may run this; it touches no row.

    In a transaction of the client's the statement is only prepared, which takes the same rights. What a transaction has
    run locks the table's definition until its end, and a stream may be open in it for ever: no ALTER would end, and
    all others would wait behind it. (A savepoint does not release the lock where the transaction has locked rows.)

    Raises:
        BackendError: it may not.
    """
    pins, upstream = session.backend.pins(), session.upstream
    # A server reads the text of PREPARE in UTF-8 only, and a vtgate does not ask its tablets about it.
    readable = sql.isascii() or session.identity.codec == "utf-8"
    if stands_alone(upstream.status) or not readable or not (pins.mariadb or pins.hints):
        await accepted(upstream, pins.waiting(sql, lock_seconds))
        return
    # MariaDB's setting is for the PREPARE; a hint of MySQL holds while its statement is prepared.
    within = sql if pins.mariadb else pins.waiting(sql, lock_seconds)
    text = string_literal(within, backslash_escapes=not session.no_backslash_escapes)
    prepare = f"PREPARE {QUESTION} FROM {text}"
    await accepted(upstream, pins.waiting(prepare, lock_seconds) if pins.mariadb else prepare)
    await accepted(upstream, f"DEALLOCATE PREPARE {QUESTION}")


async def server_condition(
    session: ClientSession, queue: QueueName, chosen: StreamFilter, values: Sequence[object], lock_seconds: int | None
) -> Condition:
    """See MakeCondition; for MySQL and MariaDB."""
    row = (await collected(session.upstream, _READ_SETTINGS)).row(len(SETTINGS) + 1)
    version, modes, *others = ((value or b"").decode("utf-8", "replace") for value in row)
    if "ORACLE" in modes.upper().split(","):
        raise UnsupportedSql("WHERE in a stream is not supported with sql_mode ORACLE; set another")
    check_native(filter_sql(chosen.parts, values), version)
    try:
        await ask(session, check_sql(queue, chosen, values), lock_seconds)
    except BackendError as error:
        raise of_condition(error) from error
    settings = tuple(zip(SETTINGS, (without_parsing_modes(modes), *others), strict=True))
    return Condition(filter_sql(chosen.parts, values), (*settings, _time_limit(version)), chosen.text)


GROUP_SETTINGS = (
    ("sql_mode", ""),
    ("time_zone", "+00:00"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("div_precision_increment", "4"),
    ("lc_time_names", "en_US"),
    ("default_week_format", "0"),
)
"""How the filter of a consumer group is read, which no session is behind."""


def group_sql(topic: TopicSpec, text: str) -> str:
    """The filter of a consumer group in the database's SQL. Raises BackendError where it is none."""
    try:
        return group_filter(topic, text)
    except (RewriteError, EngineError) as error:
        raise BackendError(f"filter: {error.message}", error.errno, error.sqlstate) from error


def server_group_conditions(pool: StorePool) -> Callable[[TopicSpec, str], Awaitable[Condition]]:
    """See engine.store.topic_log.Conditions; for MySQL and MariaDB."""

    async def condition(topic: TopicSpec, text: str) -> Condition:
        sql = group_sql(topic, text)
        ((version,),) = await pool.read(lambda connection: connection.query("SELECT VERSION()"))
        try:
            check_native(sql, str(version))
        except RewriteError as error:
            raise BackendError(f"filter: {error.message}", error.errno, error.sqlstate) from error
        return Condition(sql, GROUP_SETTINGS, text)

    return condition


def check_native(sql: str, version: str) -> None:
    """Check that every function of a filter, which is in the database's SQL, is built in: else a stored function
    of that name would run with the engine's rights. Raises UnsupportedSql."""
    names = {token.text.upper() for token in TokenCursor(sql, ()).tokens if token.kind is Kind.WORD}
    if missing := sorted(names & missing_functions(version)):
        raise UnsupportedSql(
            f"{missing[0]}() in a filter is not supported: this server has no such function of its own"
        )


def _time_limit(version: str) -> tuple[str, str]:
    """A condition that takes far longer than a page should ends its own streams, and delays no others for long."""
    if "MariaDB" in version:
        return "max_statement_time", str(SECONDS_MAX)
    return "max_execution_time", str(SECONDS_MAX * 1000)
