"""The state of a session between statements, and what a statement needs of it."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from embedded.compile.binding import MOMENTS, Dynamics, dynamic_values, moment_value, utc_now
from embedded.compile.errors import SqlError
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.dates import time_zone
from embedded.compile.plan import Bind, ResultColumn
from embedded.compile.queries.information_schema import INFORMATION_SCHEMA
from embedded.compile.schema import DATABASE, Schema, Table
from embedded.compile.text.literal_lifting import LexicalModes, Unsigned
from embedded.compile.text.modes import Modes
from embedded.compile.values.types import BIGINT, UNSIGNED_BIGINT, meta, varchar
from embedded.database.connection import SqliteConnection
from embedded.database.sqlite import SqliteDatabase
from embedded.session.client_text import DEFAULT_CHARSET, ClientText, client_text
from embedded.session.information_schema import Information
from embedded.session.shared_database import Shared
from embedded.session.transaction import Transaction
from embedded.session.variables import Variables, lexical_modes

WARNING_COLUMNS = tuple(
    ResultColumn(meta(sql_type, name, 1), sql_type)
    for name, sql_type in (("Level", varchar(7)), ("Code", UNSIGNED_BIGINT), ("Message", varchar(512)))
)
CONDITIONS_MAX = 64  # max_error_count


@dataclass(slots=True)
class Diagnostics:
    """What can be queried after the last statement: warnings, ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()."""

    warnings: list[tuple[str, int, str]] = field(default_factory=list)
    warning_count: int = 0
    row_count: int = 0
    found_rows: int = 0
    last_insert_id: int = 0

    def clear(self) -> None:
        """A new statement begins."""
        self.warnings.clear()
        self.warning_count = 0

    def add(self, level: str, errno: int, text: str) -> None:
        self.warning_count += 1
        if len(self.warnings) < CONDITIONS_MAX:
            self.warnings.append((level, errno, text))

    def shown(self, *, errors: bool, offset: int, limit: int | None) -> list[tuple[str, int, str]]:
        """Rows of SHOW WARNINGS or SHOW ERRORS."""
        rows = [row for row in self.warnings if not errors or row[0] == "Error"][offset:]
        return rows if limit is None else rows[:limit]

    def count(self, *, errors: bool) -> int:
        return sum(row[0] == "Error" for row in self.warnings) if errors else self.warning_count


def count_column(errors: bool) -> ResultColumn:
    """The column of SHOW COUNT(*) WARNINGS."""
    name = "@@session.error_count" if errors else "@@session.warning_count"
    return ResultColumn(meta(BIGINT, name, 1), BIGINT)


_NUMBERS = "SELECT name, seq + 1 FROM main.sqlite_sequence"
_CHARSETS = ("character_set_client", "character_set_connection", "character_set_results")
_HAS_NUMBERS = "SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_sequence'"
_STRICT = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL")
_UNCACHED = -1  # version of a schema that only one session has: its plans are not shared


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the session belongs to."""

    connection_id: int
    user: str
    host: str
    server_version: str
    charset: str = DEFAULT_CHARSET
    port: int = 3306

    @property
    def account(self) -> str:
        """As USER() shows it."""
        return f"{self.user}@{self.host.rsplit(':', 1)[0]}"


@dataclass(eq=False, slots=True)
class State:
    """See the module."""

    shared: Shared
    identity: Identity
    found_rows: bool
    processes: Callable[[], Sequence[Any]]
    variables: Variables
    transaction: Transaction
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    temporary: dict[str, Table] = field(default_factory=dict)
    current: str | None = DATABASE
    interactive: bool = False
    named_table: str | None = None  # while DESCRIBE or a similar statement is answered
    _modes: Modes | None = None
    _lexical: LexicalModes | None = None
    _zone: tzinfo | None = None
    _text: ClientText | None = None

    @classmethod
    def create(
        cls, database: SqliteDatabase, identity: Identity, found_rows: bool, processes: Callable[[], Sequence[Any]]
    ) -> State:
        shared = Shared.of(database)
        constants = {
            "version": identity.server_version,
            "port": identity.port,
            "pseudo_thread_id": identity.connection_id,
            "version_compile_os": platform.system(),
            "version_compile_machine": platform.machine(),
            "system_time_zone": utc_now().astimezone().tzname() or "UTC",
        }
        # A server counts whole seconds; the configured value stays in milliseconds all the same.
        settings = {"innodb_lock_wait_timeout": math.ceil(database.lock_wait_seconds)}
        variables = Variables(shared.global_variables, constants, settings)

        def wait() -> float:
            chosen = variables.chosen("innodb_lock_wait_timeout")
            return database.lock_wait_seconds if chosen is None else float(chosen)

        transaction = Transaction(database, wait)
        state = cls(shared, identity, found_rows, processes, variables, transaction)
        state._take_charset()
        return state

    def _take_charset(self) -> None:
        """What the login chose holds until SET NAMES, and again after a reset."""
        if self.identity.charset != DEFAULT_CHARSET:
            for name in _CHARSETS:
                self.variables.assign("session", name, self.identity.charset)
        self._text = None

    @property
    def database(self) -> SqliteDatabase:
        return self.shared.database

    @property
    def schema(self) -> Schema:
        """The tables that this session sees."""
        schema = self.shared.schema
        if not self.temporary:
            return schema
        return Schema(_UNCACHED, {**schema.tables, **self.temporary})

    @property
    def lexical(self) -> LexicalModes:
        """How strings and names are written."""
        if self._lexical is None:
            self._lexical = lexical_modes(self.variables.get("sql_mode"))
        return self._lexical

    @property
    def modes(self) -> Modes:
        """What of the session changes the meaning of statements."""
        if self._modes is None:
            words, lexical = self.variables.sql_modes, self.lexical
            self._modes = Modes(
                ansi_quotes=lexical.ansi_quotes,
                no_backslash_escapes=lexical.no_backslash_escapes,
                pipes_as_concat="PIPES_AS_CONCAT" in words,
                real_as_float="REAL_AS_FLOAT" in words,
                no_auto_value_on_zero="NO_AUTO_VALUE_ON_ZERO" in words,
                utc=self.zone is UTC,
                database=self.current,
                strict=not words.isdisjoint(_STRICT),
            )
        return self._modes

    @property
    def zone(self) -> tzinfo:
        """The session's time zone."""
        if self._zone is None:
            zone = time_zone(str(self.variables.get("time_zone")))
            assert zone is not None
            self._zone = zone
        return self._zone

    @property
    def text(self) -> ClientText:
        """The encodings of the client's text."""
        if self._text is None:
            client, results = (str(self.variables.get(name)) for name in (_CHARSETS[0], _CHARSETS[2]))
            self._text = client_text(client, results)
        return self._text

    def changed(self) -> None:
        """A variable or the current database has changed."""
        self._modes = self._lexical = self._zone = self._text = None
        self.transaction.settings.isolation = str(self.variables.get("transaction_isolation"))
        self.transaction.steps.foreign_keys = bool(self.variables.get("foreign_key_checks"))
        self.transaction.settings.read_only = bool(self.variables.get("transaction_read_only"))

    def use(self, database: str) -> None:
        """USE.

        Raises:
            SqlError: 1049 no such database.
        """
        if database != DATABASE and database.lower() != INFORMATION_SCHEMA:
            raise SqlError(1049, f"Unknown database '{database}'")
        self.current = database if database == DATABASE else INFORMATION_SCHEMA
        self.changed()

    def context(self, *, strict: bool = False) -> CallContext:
        """`strict`: for a change, in which strict mode refuses what loses something."""
        strict = strict and self.modes.strict
        return CallContext(self.zone, self.identity.connection_id, self.shared.locks, strict=strict)

    async def dynamics(self, binds: Sequence[Bind]) -> Dynamics:
        """What the session supplies to a statement's placeholders."""
        if not any(bind.slot < 0 for bind in binds):
            return {}
        status: dict[str, Any] = {}
        if any(bind.dynamic == "virtual" and bind.arguments[0] == "TABLES" for bind in binds):
            status = await self.database.read(_next_numbers)
        return self.lookups(binds, status)

    def lookups(self, binds: Sequence[Bind], status: dict[str, Any]) -> Dynamics:
        now = utc_now()

        def look_up(name: str, arguments: tuple[Any, ...]) -> Any:
            if name in MOMENTS:
                return moment_value(name, arguments, now, self.zone)
            if name == "virtual":
                return self.information(status).rows(arguments[0])
            return self.session_value(name)

        return dynamic_values(binds, look_up)

    def session_value(self, name: str) -> Any:
        """A function of the session without arguments."""
        match name:
            case "connection_id":
                return self.identity.connection_id
            case "last_insert_id":
                return self.diagnostics.last_insert_id
            case "database":
                return self.current
            case "user" | "current_user":
                return self.identity.account
            case "version":
                return self.identity.server_version
            case "row_count":
                return self.diagnostics.row_count
            case "found_rows":
                return self.diagnostics.found_rows
            case _:
                return "NONE"

    def look_up(self, text: str) -> Any:
        """`@name` and `@@name` in a statement."""
        match text.lower().removeprefix("@@").removeprefix("session."):
            case "last_insert_id" | "identity" if text.startswith("@@"):
                return Unsigned(self.diagnostics.last_insert_id)
            case "warning_count" if text.startswith("@@"):
                return Unsigned(self.diagnostics.warning_count)
            case "error_count" if text.startswith("@@"):
                return Unsigned(self.diagnostics.count(errors=True))
        return self.variables.look_up(text)

    @property
    def uptime(self) -> int:
        """Seconds since the database was opened."""
        return int(time.monotonic() - self.shared.started)

    def information(self, status: dict[str, Any]) -> Information:
        user, _, host = self.identity.account.partition("@")
        processes = self.processes()
        counters = {
            "Threads_connected": len(processes),
            "Uptime": self.uptime,
            "Threads_running": sum(process.command != "Sleep" for process in processes),
            **status,
        }
        account, texts = f"`{user}`@`{host}`", self.shared.column_texts
        return Information(self.schema, self.variables, processes, account, counters, texts, self.named_table)

    def begin(self) -> None:
        """A session keeps the settings from its start: its sql_mode, by which its client escapes, and its idle timeout,
        which is another one for an interactive client (CLIENT_INTERACTIVE)."""
        self.variables.assign("session", "sql_mode", self.variables.get("sql_mode", "global"))
        name = "interactive_timeout" if self.interactive else "wait_timeout"
        self.variables.assign("session", "wait_timeout", self.variables.get(name, "global"))

    async def reset(self) -> None:
        """As a fresh connection: COM_RESET_CONNECTION."""
        await self.transaction.close()
        self.shared.locks.release_all(self.identity.connection_id)
        self.transaction.autocommit = True
        self.temporary.clear()
        self.variables.reset()
        self._take_charset()
        self.begin()
        self.diagnostics = Diagnostics()
        self.changed()


def _next_numbers(connection: SqliteConnection) -> dict[str, Any]:
    if not connection.fetch_all(_HAS_NUMBERS):
        return {}
    return {f"next:{name}": number for name, number in connection.fetch_all(_NUMBERS)}
