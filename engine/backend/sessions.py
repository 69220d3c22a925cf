"""The session variables that every session of the engine sets, whatever the server's own settings are.

Two kinds of settings. Those that decide what the engine's statements mean are required: a session without them is not
used. Those that bound how long a session may be silent are set where the server has them.

The bounds end the sessions of a silent proxy: frozen, suspended, or disconnected from its database without an error.
Its transactions hold locks until the server ends them, which by default takes eight hours. A session of the engine is
never silent for long in mid-transaction, so the server may end it soon, and other proxies continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.backend.servers import is_mariadb

SILENCE_SECONDS = 10
"""After so long without a packet the server ends the session, and its locks are released. Longer than the longest pause
of a proxy that is only short of CPU time."""

LOCK_WAIT_SECONDS = 3  # the engine's statements skip locked rows: only DDL makes them wait, and keys of schedules

STATEMENT_SECONDS = 75  # longer than any answer is waited for: then the result is not needed any more
_WITH_THE_OTHERS = "wsrep_sync_wait = 1"
"""On a Galera node: reads wait for what other nodes have committed. Otherwise a proxy there, which is notified of a
commit very fast, would poll too early and not see the message before its next poll."""


ALL_ROWS = "18446744073709551615"

PINNED: Mapping[str, tuple[str, str]] = {
    "autocommit": ("ON", "1"),
    "completion_type": ("NO_CHAIN", "0"),  # the engine's COMMIT ends a transaction and begins none
    "character_set_client": ("utf8mb4", "utf8mb4"),
    "character_set_connection": ("utf8mb4", "utf8mb4"),
    "character_set_results": ("utf8mb4", "utf8mb4"),
    "default_storage_engine": ("InnoDB", "InnoDB"),
    "foreign_key_checks": ("ON", "1"),
    "innodb_snapshot_isolation": ("OFF", "0"),  # a locking read in READ COMMITTED may begin with an older snapshot
    "sql_auto_is_null": ("OFF", "0"),
    "sql_big_selects": ("ON", "1"),  # whatever max_join_size says
    "sql_quote_show_create": ("ON", "1"),
    "sql_safe_updates": ("OFF", "0"),
    "sql_select_limit": (ALL_ROWS, ALL_ROWS),
    "transaction_read_only": ("OFF", "0"),
    "tx_read_only": ("OFF", "0"),  # as it was called before
    "unique_checks": ("ON", "1"),
}
"""Settings that a session may have from the start (server defaults, init_connect) and the engine's must not: the
required value as SHOW VARIABLES reports it, and as it is set. Each is set where the server has it with another value.

Not the time zone: defaults such as NOW(), in messages of a schedule, are in the server's own."""

ROW_BINLOG = "SET SESSION binlog_format = 'ROW'"
"""Needed where the server's is STATEMENT: it takes nothing from sessions in READ COMMITTED (1665)."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One setting. `needed`: a server that does not take it cannot be used."""

    sql: str
    needed: bool = True


_NOT_OF_VITESS = ("sql_select_limit",)
"""A vtgate has a limit of its own, which is unlimited by default, and accepts no 64-bit number for it."""

UNLIMITED = Pin(f"SET SESSION sql_select_limit = {ALL_ROWS}, SESSION sql_big_selects = 1", needed=False)
"""Sent before any query: SHOW has these limits, too."""


def pins(
    version: str, *, replicates: bool, variables: Mapping[str, str] | None = None, vitess: bool = False
) -> tuple[Pin, ...]:
    """The settings for a session of the engine at a server of this version; `replicates`: at a Galera node;
    `variables`: what the session begins with."""
    apart = _NOT_OF_VITESS if vitess else ()
    begins = {name: value for name, value in (variables or {}).items() if name not in apart}
    return tuple(_pins(is_mariadb(version), replicates, begins))


def _pins(mariadb: bool, replicates: bool, variables: Mapping[str, str]) -> Iterator[Pin]:
    other = [name for name, (shown, _) in PINNED.items() if variables.get(name, shown) != shown]
    if other:
        yield Pin("SET " + ", ".join(f"SESSION {name} = {PINNED[name][1]}" for name in other))
    yield Pin(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    yield Pin(f"SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    yield Pin("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    # Whatever the server's own modes: they would change how statements are parsed, and how definitions are printed.
    yield Pin("SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'")
    if replicates:
        yield Pin(f"SET SESSION {_WITH_THE_OTHERS}")
    for name in ("wait_timeout", "net_read_timeout", "net_write_timeout"):
        yield Pin(f"SET SESSION {name} = {SILENCE_SECONDS}", needed=False)
    if mariadb:
        yield Pin(f"SET SESSION idle_transaction_timeout = {SILENCE_SECONDS}", needed=False)
        yield Pin(f"SET SESSION max_statement_time = {STATEMENT_SECONDS}", needed=False)
    else:
        yield Pin(f"SET SESSION max_execution_time = {STATEMENT_SECONDS * 1000}", needed=False)
