"""A Vitess, whose databases go by other names in information_schema: a fake that answers as vtgate does.

vtgate puts the tablet's name in the place of the keyspace's in `TABLE_SCHEMA = 'keyspace'`, and shows the tablet's. It
hears of a new table late. `tests/integration/test_on_vitess.py` has the same on a real one, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from engine.backend.base import Answer
from engine.backend.servers import keyspaces_of, unfit_database
from engine.model.errors import BackendError, InvalidQueueTable
from engine.model.keyspaces import Keyspaces
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import ColumnMeta, IndexInfo, QueueCatalog, QueueName
from engine.model.sharded import Vindex
from engine.store.catalog import TableInfo, next_catalog, queue_spec
from engine.store.statements import mysql
from engine.store.statements.mysql import list_tables

COMMENT = "vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30"
COLUMNS = tuple(
    ColumnMeta(name, 8, charset=63, flags=0x0001) for name in ("id", "priority", "epoch", "time_next", "time_acked")
)


@dataclass
class Vtgate:
    """`tables`: by keyspace. `unknown`: of those it has yet to hear, how often it says so."""

    counts: dict[str, int]
    tables: dict[str, list[str]]
    unknown: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    stale: int = 0
    vindex: str = "binary_md5"

    @property
    def exact_names(self) -> bool:
        return False

    @property
    def keyspaces(self) -> Keyspaces:
        return Keyspaces({name: tuple(map(str, range(count))) for name, count in self.counts.items()}, "main")

    def query(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        if "information_schema.TABLES" in sql:
            assert "TABLE_SCHEMA = ?" in sql, "it would be asked of some keyspace"
            *_, keyspace = params
            if keyspace in self.down:
                raise BackendError(f"target: {keyspace}.0.primary: no healthy tablet available", 1105)
            return [(f"vt_{keyspace}", table, COMMENT, "InnoDB") for table in self.tables[keyspace]]
        if sql.startswith("SHOW VSCHEMA VINDEXES"):
            return [("k", "by_k", self.vindex, "", "")] if self.vindex else []
        if "information_schema.STATISTICS" in sql:
            assert params[0] in self.tables
            return [("PRIMARY", 0, "id", None), ("q", 1, "time_acked", None)]
        for table in self.unknown:
            if f"`{table}`" in sql and self.unknown[table]:
                self.unknown[table] -= 1
                raise BackendError(f"table {table} not found", 1105)
        return []

    def execute(self, sql: str, params: Any = ()) -> int:
        return 0

    def run(self, statements: Any, **_: Any) -> list[Answer]:
        self.asked += [statement.sql for statement in statements]
        columns = ",\n".join(f"  `{column.name}` bigint NOT NULL" for column in COLUMNS)
        text = f"CREATE TABLE `t` (\n{columns},\n  PRIMARY KEY (`id`)\n)"
        return [Answer([(b"t", text.encode())], 0) for _ in statements]

    def describe(self, database: str, table: str, names: Sequence[str] = ()) -> tuple[ColumnMeta, ...]:
        assert table in self.tables[database], "not the tablet's name"
        if self.unknown.get(table):
            raise BackendError(f"table {table} not found", 1105)
        if self.stale:
            self.stale -= 1
            if self.stale % 2:
                raise BackendError("Unknown column 'before' in 'field list'", 1054)
            return COLUMNS[:-1]
        return COLUMNS


def test_tables_have_their_keyspaces_name():
    vtgate = Vtgate({"main": 1, "other": 1}, {"main": ["a", "b"], "other": ["c"]})
    tables = list_tables(vtgate, {})
    assert [table.name for table in tables] == [QueueName("main", "a"), QueueName("main", "b"), QueueName("other", "c")]
    assert queue_spec(tables[0]).name == QueueName("main", "a")


def test_of_tables_that_are_not_named_only_the_comment_is_read():
    vtgate = Vtgate({"main": 1, "other": 1}, {"main": ["a", "b", "gone"], "other": ["c"]})
    known = {table.name: table for table in list_tables(vtgate, {})}
    vtgate.tables["main"] = ["a", "b", "fresh"]
    known[QueueName("main", "b")] = replace(known[QueueName("main", "b")], comment="of before")
    vtgate.asked.clear()
    tables = list_tables(vtgate, known, (QueueName("OTHER", "C"),))  # the server may ignore the case of names
    assert [table.name.table for table in tables] == ["a", "b", "fresh", "c"] and tables[0] is known[tables[0].name]
    assert {table.comment for table in tables} == {COMMENT}
    read = [sql for sql in vtgate.asked if sql.startswith("SHOW CREATE TABLE")]
    assert read == [f"SHOW CREATE TABLE {table.name.sql}" for table in tables[1:]]


def test_a_keyspace_that_does_not_answer_stops_no_other(caplog):
    vtgate = Vtgate({"main": 1, "other": 1}, {"main": ["a"], "other": ["c"]})
    first = list_tables(vtgate, {})
    catalog = next_catalog(QueueCatalog(), first, keyspaces=vtgate.keyspaces)
    vtgate.down.add("other")
    known = {table.name: table for table in first}
    for _ in range(3):
        tables = list_tables(vtgate, known)
        known = {table.name: table for table in tables}
        assert next_catalog(catalog, tables, keyspaces=vtgate.keyspaces) is catalog  # its queues are taken as they were
    assert caplog.text.count("the keyspace other cannot be read: target: other.0.primary") == 1
    vtgate.down.clear()
    assert list_tables(vtgate, known) == first
    vtgate.down.update(("main", "other"))
    with pytest.raises(BackendError, match="no healthy tablet"):
        list_tables(vtgate, known)


def test_a_proxy_starts_beside_a_keyspace_that_does_not_answer():
    vtgate = Vtgate({"gone": 1, "main": 1}, {"main": ["a"]}, down={"gone"})
    assert [table.name for table in list_tables(vtgate, {})] == [QueueName("main", "a")]


def test_a_new_table_is_waited_for(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(mysql, "pause", slept.append)
    vtgate = Vtgate({"main": 1}, {"main": ["a", "fresh"]}, {"fresh": 5})
    (a, fresh) = list_tables(vtgate, {})
    assert fresh.unreadable is None and len(slept) == 5
    vtgate.unknown["a"] = 1000  # it was known: something else is wrong, and nobody waits
    (a, fresh) = list_tables(vtgate, {table.name: table for table in (a, fresh)})
    assert len(slept) == 5


def test_the_columns_of_a_table_that_was_made_again_are_waited_for(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(mysql, "pause", slept.append)
    vtgate = Vtgate({"main": 1}, {"main": ["a"]}, stale=4)
    (a,) = list_tables(vtgate, {})
    assert a.columns == COLUMNS and a.unreadable is None and len(slept) == 4


def test_a_table_of_a_sharded_keyspace_needs_a_sharding_key():
    vtgate = Vtgate({"main": 1, "wide": 2}, {"main": ["a"], "wide": ["b"]})
    tables = list_tables(vtgate, {})
    catalog = next_catalog(QueueCatalog(), tables, keyspaces=vtgate.keyspaces)
    assert set(catalog.queues) == {QueueName("main", "a")} and list(catalog.keyspaces) == ["main", "wide"]
    told = "the keyspace 'wide' has 2 shards, and a queue in it needs a SHARDING KEY"
    assert catalog.rejected == {QueueName("wide", "b"): f"{told} (table b)"}
    assert next_catalog(catalog, tables, keyspaces=vtgate.keyspaces) is catalog
    with pytest.raises(InvalidQueueTable, match="2 shards"):
        queue_spec(tables[1], ("-80", "80-"))


@pytest.mark.parametrize(
    ("vindex", "fits"),
    [
        (Vindex("k", "binary_md5"), True),
        (Vindex("k", "hash"), False),
        (Vindex("n", "binary_md5"), False),
        (None, False),
    ],
)
def test_what_places_the_rows_has_to_be_the_ring(vindex, fits):
    """Else a verb would go to the shard that the key names, and find no message there."""
    slot = ColumnMeta("queuegate_slot", 2, 63, flags=0x20)
    table = TableInfo(
        QueueName("wide", "b"),
        to_comment(QueueOptions(sharding_key="k")),
        (*COLUMNS, ColumnMeta("k", 8, 63, flags=1), slot),
        (IndexInfo(("id",), True, "PRIMARY"),),
        frozenset((slot.name,)),
        vindex=vindex,
    )
    if fits:
        assert queue_spec(table, ("-80", "80-")).shards == ("-80", "80-")
    else:
        with pytest.raises(InvalidQueueTable, match=r"a queue in it needs binary_md5\(k\)"):
            queue_spec(table, ("-80", "80-"))


def test_the_vindex_of_a_new_table_is_waited_for(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(mysql, "pause", slept.append)
    vtgate = Vtgate({"main": 1, "wide": 2}, {"main": ["a"], "wide": ["b"]}, vindex="")
    a, b = list_tables(vtgate, {})
    assert b.vindex is None and len(slept) == 100
    known = {table.name: table for table in (a, b)}
    assert list_tables(vtgate, known)[1] is b and len(slept) == 100
    vtgate.vindex = "binary_md5"
    assert list_tables(vtgate, known)[1].vindex == Vindex("k", "binary_md5")


def test_rows_of_shards():
    keyspaces = keyspaces_of([("main/0",), (b"wide/-80",), ("wide/80-",)], "wide:-80")
    assert keyspaces == Keyspaces({"main": ("0",), "wide": ("-80", "80-")}, "wide")
    assert keyspaces.whole == ["main"] and keyspaces.shards_of("wide") == ("-80", "80-")
    assert keyspaces.shards_of("main") == keyspaces.shards_of("other") == ()
    assert "'wide' has 2 shards" in str(unfit_database(keyspaces))
    assert unfit_database(keyspaces_of([("main/0",)], "main")) is unfit_database(keyspaces_of([], None)) is None
