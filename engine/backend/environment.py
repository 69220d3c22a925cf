"""The server settings that sessions pin, and what is checked of a server before it is used.

Under some settings a statement means something else, or fails. Three kinds of sessions send queuegate's statements:

    the engine's own      pin all that their statements depend on (engine.backend.sessions)
    a client's            have the client's settings: `StatementPins` pins what one statement needs
    a program's           (worker, Celery, Spark, console) is a client; docs/servers.md lists what each of them sets

What cannot be pinned is refused with one line, when the proxy connects (`refusal`) or when a table is created or read
(engine.store.catalog).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from engine.backend.servers import is_mariadb, unsupported
from engine.backend.sessions import PINNED
from engine.model.pins import Pins

_GROUP, _ONE_PRIMARY = "group_replication_group_name", "group_replication_single_primary_mode"
"""Of MySQL's Group Replication; a server without its plugin has neither."""

_CASE = "lower_case_table_names"
_REPORTED = ("version", "version_comment", "wsrep_on", "log_bin", "binlog_format", _GROUP, _ONE_PRIMARY, _CASE)

SERVER_VARIABLES = "SHOW VARIABLES WHERE Variable_name IN ({})".format(
    ", ".join(f"'{name}'" for name in (*_REPORTED, *PINNED))
)
"""The kind of server, whether it is a node of a Galera cluster (MySQL has no wsrep_on), and the variables at the start
of a session."""

_SEVERAL_PRIMARIES = (
    "the server is in a Group Replication group of several primaries (group_replication_single_primary_mode = OFF),"
    " which do not see each other's row locks, and whose transactions become visible in another order than their ids:"
    " use a group with a single primary"
)

_NO_ROW_BINLOG = (
    "the server writes its binary log by statements (binlog_format = STATEMENT), which takes no write of a session in"
    " READ COMMITTED, and the account of the backend's URL may not have its own sessions written by rows: set"
    " binlog_format = MIXED or ROW, or grant it {right}"
)

_WITHOUT_WAITING = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR "
"""MariaDB's; MySQL waits for a second at least."""

LOCK_SECONDS_MIN, LOCK_SECONDS_MAX = 1, 31536000
"""What every server accepts for lock_wait_timeout: a lock of a whole table, or of its definition."""


@dataclass(frozen=True, slots=True)
class StatementPins:
    """How a statement is written so that it means the same under a client's settings, for this statement only.

    MariaDB has SET STATEMENT, MySQL a hint for each variable; a server with neither gets the text unchanged.
    `snapshots`: the server may refuse to change a row that changed after a transaction's snapshot (1020).
    """

    mariadb: bool = False
    hints: bool = False
    snapshots: bool = False

    def pinned(self, sql: str, pins: Pins) -> str:
        """The statement with the settings it needs."""
        if pins is Pins.NOTHING or not (self.mariadb or self.hints):
            return sql
        if self.mariadb:
            return _PREFIXES[self.snapshots][pins] + sql
        return self._hinted(sql, _HINTS[pins])

    def waiting(self, sql: str, seconds: int | None) -> str:
        """The statement with that lock wait timeout for tables; None: the session's."""
        if seconds is None or not (self.mariadb or self.hints):
            return sql
        if self.mariadb:
            return f"SET STATEMENT lock_wait_timeout = {seconds} FOR {sql}"
        return self._hinted(sql, f"/*+ SET_VAR(lock_wait_timeout = {seconds}) */ ")

    @staticmethod
    def _hinted(sql: str, hint: str) -> str:
        """With a hint behind the verb and its space; what may be part of a comment or a string gets none."""
        verb, space, rest = sql.partition(" ")
        return f"{verb}{space}{hint}{rest}" if verb.isalpha() else sql


def _prefix(names: Iterable[str]) -> str:
    settings = ", ".join(f"{name} = {PINNED[name][1]}" for name in names)
    return f"SET STATEMENT {settings} FOR " if settings else ""


def _hint(names: Iterable[str]) -> str:
    settings = " ".join(f"SET_VAR({name} = {PINNED[name][1]})" for name in names)
    return f"/*+ {settings} */ " if settings else ""


_OF_VERBS = ("sql_safe_updates",)
_OF_UNITS = ("sql_safe_updates", "sql_select_limit", "sql_big_selects")
_SNAPSHOTS = ("innodb_snapshot_isolation",)
_HINTS = {Pins.NOTHING: "", Pins.ROWS: "", Pins.VERB: _hint(_OF_VERBS), Pins.UNIT: _hint(_OF_UNITS)}
_PREFIXES = {
    snapshots: {
        Pins.NOTHING: "",
        Pins.ROWS: _prefix(_SNAPSHOTS * snapshots),
        Pins.VERB: _prefix((*_SNAPSHOTS * snapshots, *_OF_VERBS)),
        Pins.UNIT: _prefix((*_SNAPSHOTS * snapshots, *_OF_UNITS)),
    }
    for snapshots in (False, True)
}


@dataclass(frozen=True)
class Environment:
    """A server and the start of a session, as SERVER_VARIABLES reports them."""

    variables: Mapping[str, str]

    @classmethod
    def of(cls, rows: Iterable[tuple[object, ...]]) -> Environment:
        return cls({_text(row[0]).lower(): _text(row[1]) for row in rows})

    @property
    def version(self) -> str:
        return self.variables.get("version", "")

    @property
    def mariadb(self) -> bool:
        return is_mariadb(self.version)

    @property
    def vitess(self) -> bool:
        return "vitess" in f"{self.version} {self.variables.get('version_comment', '')}".lower()

    @cached_property  # this and the next ones: each claim asks
    def replicates(self) -> bool:
        """Whether it is a node of a Galera cluster."""
        return self.variables.get("wsrep_on", "").upper() in ("ON", "1")

    @property
    def exact_names(self) -> bool:
        """Whether two tables may have names that differ in case alone."""
        return self.variables.get(_CASE) == "0"

    @property
    def has_several_primaries(self) -> bool:
        """Whether it is in a Group Replication group in which more than one member is written to."""
        single = self.variables.get(_ONE_PRIMARY, "ON").upper() in ("ON", "1")
        return bool(self.variables.get(_GROUP)) and not single

    @property
    def statement_binlog(self) -> bool:
        """Whether what a session writes is logged as statements."""
        logs = self.variables.get("log_bin", "").upper() in ("ON", "1")
        return logs and self.variables.get("binlog_format", "").upper() == "STATEMENT"

    @property
    def refusal(self) -> str | None:
        """Why it cannot serve; None where it can."""
        return _SEVERAL_PRIMARIES if self.has_several_primaries else unsupported(self.version)

    @property
    def no_row_binlog(self) -> str:
        """Why it cannot serve where ROW_BINLOG is refused."""
        right = "BINLOG ADMIN" if self.mariadb else "SESSION_VARIABLES_ADMIN"
        return _NO_ROW_BINLOG.format(right=right)

    @cached_property
    def without_waiting(self) -> str:
        """The prefix of a statement that must fail where it would wait for a row."""
        return _WITHOUT_WAITING if self.mariadb else ""

    @cached_property  # each statement of a client's asks
    def statement_pins(self) -> StatementPins:
        """How queuegate's statements are written in a client's session."""
        own = self.mariadb or self.vitess
        known = self.version[:1].isdigit()
        return StatementPins(
            mariadb=self.mariadb, hints=known and not own, snapshots="innodb_snapshot_isolation" in self.variables
        )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
