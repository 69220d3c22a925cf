"""Upstream: one client session's own connection to the database, packet level: relayed (MySQL) or embedded (SQLite).

An upstream takes a client's command packet and sees to it that the whole answer reaches the client; it returns the
outcome in the answer's last packet. It knows nothing of queues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from engine.model.errors import BackendError
from engine.model.queue import QueueName, TextValue, quoted
from mysql_wire.outcome import Collected, Outcome, unexpected_answer
from proxy.rights.variables import changes_parsing, without_parsing_modes
from proxy.upstream.large_command import LargeCommand

RESULTS_CHARSET = "SELECT @@character_set_results"
"""The statement by which `collect` reads the character set of results. An upstream that knows it need not query the
database."""

QUESTION = "queuegate_question"
"""The name under which `collect` prepares a statement for its answer alone, and deallocates it at once."""

NOT_BASE_TABLE = 1347
"""ER_WRONG_OBJECT: in this session something else has the name of a table."""

_NOT_SHOWN = (1142, 1146)  # of a table to which the account has no right on all of it, or that does not exist


class Upstream(Protocol):
    """See the module."""

    @property
    def status(self) -> int:
        """The status flags last received (in transaction, autocommit)."""
        ...

    @property
    def alive(self) -> bool:
        """False once the connection is lost; the client connection ends with it unless it is streaming."""
        ...

    @property
    def connection_required(self) -> bool:
        """Whether the session depends on a connection that its server ends if it is silent for long."""
        ...

    async def command(
        self,
        payload: bytes,
        *,
        more: bool = False,
        buffered: bool = False,
        repeatable: bool = False,
        plain: bytes | None = None,
    ) -> Outcome:
        """Have a command (its packet payload) answered to the client.

        `more`: further results of the same client command follow, so the last packet must announce them. `buffered`:
        the answer waits until `deliver`, for statements after which the catalog must be read again first.
        `repeatable`: it is one statement, which may be sent again where the database has rolled it back (see repeats).
        `plain`: the command without the settings that the proxy has put before its statement, where it has. What may be
        run is judged by that one: no text of a client can show which part of it is the proxy's.
        """
        ...

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """As `command`, for one that the client is still sending; `large` has what was not sent to the database.

        Raises:
            StreamClosed, FatalProtocolError: the client broke off; the connection is cut.
        """
        ...

    def recode(self, encoding: str) -> None:
        """The client has changed its character set: `collect` is to use that one."""
        ...

    async def deliver(self) -> None:
        """Write the buffered answer."""
        ...

    async def collect(self, sql: str) -> Collected | Outcome:
        """Run a statement for the proxy itself; nothing reaches the client. Outcome where it failed or had no rows.
        Text is in UTF-8, whatever the client's character sets."""
        ...

    async def close(self) -> None:
        """Close the connection; an open transaction is rolled back. May be called twice."""
        ...


def encoded(sql: str, codec: str) -> bytes:
    """A statement as the client's connection takes it.

    Raises:
        BackendError: it names a queue or a column in characters that the client's character set lacks.
    """
    try:
        return sql.encode(codec, "surrogateescape")
    except UnicodeEncodeError as error:
        raise BackendError(
            "a name in this statement has characters that the connection's character set lacks: SET NAMES utf8mb4", 1300
        ) from error


async def collected(upstream: Upstream, sql: str) -> Collected:
    """The rows of a question of the proxy's own.

    Raises:
        BackendError: the database refuses it, or answers without rows.
    """
    result = await upstream.collect(sql)
    if isinstance(result, Collected):
        return result
    if result.ok:
        raise unexpected_answer("no result")
    raise result.failure()


async def results_charset(upstream: Upstream) -> str | None:
    """The character set in which the client wants its results. None: nothing is to be converted.

    Raises:
        BackendError: the database does not say.
    """
    (name,) = (await collected(upstream, RESULTS_CHARSET)).row(1)
    return None if name is None else name.decode("ascii", "replace")


async def charset_of(upstream: Upstream, rows: Iterable[Iterable[TextValue]]) -> str | None:
    """As results_charset, of these rows of an answer of the proxy's own; ASCII needs no question. Raises as that."""
    plain = all(value is None or value.isascii() for row in rows for value in row)
    return None if plain else await results_charset(upstream)


async def accepted(upstream: Upstream, sql: str) -> None:
    """Have a statement of the proxy's own done, whatever it brings.

    Raises:
        BackendError: the database refuses it.
    """
    result = await upstream.collect(sql)
    if isinstance(result, Outcome) and not result.ok:
        raise result.failure()


async def definition(upstream: Upstream, table: QueueName, *, at_shard: bool = False) -> bytes:
    """The definition of a queue's or topic's table, as this session sees it. `at_shard`: where a vtgate passes texts on
    as they are, and the server behind it knows its database by another name.

    Raises:
        BackendError: the database does not show it; or (NOT_BASE_TABLE) the name is that of a temporary table of this
            session, or of a view.
    """
    name = quoted(table.table) if at_shard else table.sql
    _, text = (await collected(upstream, f"SHOW CREATE TABLE {name}")).row(2)
    if (text or b"").startswith(b"CREATE TABLE"):
        return text or b""
    raise BackendError(
        f"'{table}' is in this session the name of a temporary table, or of a view, which hides the queue or topic:"
        f" DROP TEMPORARY TABLE {table.sql}",
        NOT_BASE_TABLE,
    )


async def check_own_table(upstream: Upstream, table: QueueName, *, at_shard: bool = False) -> None:
    """Where the database is asked, on a client's connection, whether its account has a right to a queue or topic: that
    the answer is about the table, and not about a temporary table of its name, on which the account has all rights. A
    session is always shown its own temporary tables, so a table that is not shown is none.

    Raises:
        BackendError: see `definition`.
    """
    try:
        await definition(upstream, table, at_shard=at_shard)
    except BackendError as error:
        if error.errno not in _NOT_SHOWN:
            raise


async def read_plainly(upstream: Upstream) -> None:
    """Have SQL read by the rules by which it is judged here.

    Raises:
        BackendError: the database does not.
    """
    modes = await collected(upstream, "SELECT @@sql_mode")
    text = (modes.row(1)[0] or b"").decode("utf-8", "replace")
    if changes_parsing(text):
        done = await upstream.collect(f"SET SESSION sql_mode = '{without_parsing_modes(text)}'")
        if isinstance(done, Outcome) and not done.ok:
            raise done.failure()
