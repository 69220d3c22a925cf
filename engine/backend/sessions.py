"""What every session of the engine pins at its server, whatever the server's own settings are.

Two kinds of settings. Those that decide what our statements mean have to be set: a session without them is not used.
Those that bound how long a session may be silent are set where the server has them.

The bounds are what ends a proxy that is silent: frozen, suspended, or cut off from its database without a word. Its
transactions hold locks until its server ends them, which by the servers' own settings is after eight hours. A session
of ours is never silent for long in mid-transaction, so the server may end it soon, and other proxies go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.backend.servers import is_mariadb

SILENCE_SECONDS = 10
"""After so long without a word from us the server ends the session, and what it held goes to others. Longer than the
longest pause of a proxy that is only short of processor time."""

LOCK_WAIT_SECONDS = 3  # ours pass over locked rows, so only DDL makes them wait

STATEMENT_SECONDS = 75  # longer than an answer is ever waited for: nobody is left to be told
_WITH_THE_OTHERS = "wsrep_sync_wait = 1"
"""On a Galera node: reads wait for what other nodes have committed. A proxy there hears of a message in no time, and
would look too early, find nothing, and come back with its next poll."""


ALL_ROWS = "18446744073709551615"

PINNED: Mapping[str, tuple[str, str]] = {
    "autocommit": ("ON", "1"),
    "completion_type": ("NO_CHAIN", "0"),  # a COMMIT of ours ends a transaction and begins none
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
"""Settings that a server may begin a session with (its defaults, its init_connect) and ours must not have: how SHOW
VARIABLES tells what they are to be, and how that is set. Each is set where the server has it, and has it otherwise.

Not the time zone: defaults such as NOW(), of what a schedule sends, are in the server's own."""

ROW_BINLOG = "SET SESSION binlog_format = 'ROW'"
"""Needed where the server's is STATEMENT: it takes nothing from sessions in READ COMMITTED (1665)."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One setting. `needed`: a server that does not take it cannot be used."""

    sql: str
    needed: bool = True


_NOT_OF_VITESS = ("sql_select_limit",)
"""A vtgate has a limit of its own, which is none by default, and takes no number of 64 bits for it."""

UNLIMITED = Pin(f"SET SESSION sql_select_limit = {ALL_ROWS}, SESSION sql_big_selects = 1", needed=False)
"""Comes before the server is asked for anything: SHOW has these limits, too."""


def pins(
    version: str, *, replicates: bool, told: Mapping[str, str] | None = None, vitess: bool = False
) -> tuple[Pin, ...]:
    """What a session of the engine sets at a server that tells this version; `replicates`: at a Galera node; `told`:
    what the session begins with."""
    apart = _NOT_OF_VITESS if vitess else ()
    begins = {name: value for name, value in (told or {}).items() if name not in apart}
    return tuple(_pins(is_mariadb(version), replicates, begins))


def _pins(mariadb: bool, replicates: bool, told: Mapping[str, str]) -> Iterator[Pin]:
    other = [name for name, (shown, _) in PINNED.items() if told.get(name, shown) != shown]
    if other:
        yield Pin("SET " + ", ".join(f"SESSION {name} = {PINNED[name][1]}" for name in other))
    yield Pin(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    yield Pin(f"SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    yield Pin("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    # Whatever the server's own modes: they would change how our texts are read, and how it prints definitions.
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
