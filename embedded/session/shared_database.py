"""What all sessions of one embedded database share: its schema, the plans, the global variables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import lru_cache
from typing import Any

from embedded.compile.functions.aggregates import AGGREGATES
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.dates import time_zone
from embedded.compile.functions.locks import NamedLocks
from embedded.compile.functions.registry import scalars
from embedded.compile.schema import Schema, Table, from_json
from embedded.compile.statement import PlanCache
from embedded.database.connection import SqlFunctions, SqliteConnection
from embedded.database.sqlite import SqliteDatabase
from embedded.session.information_schema import ColumnTexts
from embedded.session.parser_threads import ParserThreads
from engine.backend.base import Settings

_KEY = "embedded"
_TABLES = "SELECT comment, definition FROM queuegate_meta_tables ORDER BY name"
FUNCTIONS = SqlFunctions(scalars(), AGGREGATES)


@dataclass(eq=False, slots=True)
class Shared:
    """See the module. Get it with `of`; `schema` is empty until `load` has run once."""

    database: SqliteDatabase
    schema: Schema = field(default_factory=Schema)
    plans: PlanCache = field(default_factory=PlanCache)
    global_variables: dict[str, Any] = field(default_factory=dict)
    locks: NamedLocks = field(default_factory=NamedLocks)
    parsers: ParserThreads = field(default_factory=ParserThreads)
    column_texts: ColumnTexts = field(default_factory=ColumnTexts)
    loaded: bool = False
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, database: SqliteDatabase) -> Shared:
        """The database's one Shared; our functions are installed with it."""
        shared = database.shared.get(_KEY)
        if not isinstance(shared, Shared):
            database.install(FUNCTIONS, _context)
            shared = database.shared[_KEY] = cls(database)
            database.at_close.append(shared.parsers.close)
        return shared

    async def load(self) -> None:
        """Read the schema, once."""
        if not self.loaded:
            tables = await self.database.read(read_tables)
            if not self.loaded:
                self.adopt(tables)

    def adopt(self, tables: dict[str, Table]) -> None:
        """A new schema, read after a change to it."""
        self.schema = Schema(self.schema.version + 1, tables)
        self.loaded = True


def _context(settings: Settings) -> CallContext:
    """For a condition that the engine reads as a session would."""
    zone = time_zone(dict(settings).get("time_zone", "+00:00"))
    return CallContext(UTC if zone is None else zone)


def read_tables(connection: SqliteConnection) -> dict[str, Table]:
    """Every table in the data dictionary. The comment is stored next to the definition, where the engine reads it."""
    tables = (_table(comment, text) for comment, text in connection.fetch_all(_TABLES))
    return {table.name: table for table in tables}


@lru_cache(maxsize=10_000)
def _table(comment: str, text: str) -> Table:
    """Of one definition; a change to one table must not read all others again."""
    return replace(from_json(text), comment=comment)
