"""MariaDB's ODBC driver: the calls by which office programs and BI tools find tables, columns and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import SERVER
from toolchains import missing

pytestmark = pytest.mark.long

DRIVERS = [Path("/usr/lib") / machine / "odbc/libmaodbc.so" for machine in ("x86_64-linux-gnu", "aarch64-linux-gnu")]


@pytest.fixture
def odbc(gate, name):
    """A connection, with a table, one that refers to it, and a view."""
    driver = next((file for file in DRIVERS if file.exists()), None) or missing(
        "MariaDB's ODBC driver is not installed (Debian: odbc-mariadb)"
    )
    try:
        import pyodbc
    except ImportError as error:
        missing(f"pyodbc cannot be loaded ({error})")
    connection = pyodbc.connect(
        f"DRIVER={driver};SERVER=127.0.0.1;PORT={gate.port};UID=root;DATABASE={gate.database}", autocommit=True
    )
    cursor = connection.cursor()
    cursor.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, code VARCHAR(20) NOT NULL UNIQUE,"
        " price DECIMAL(10,2), at DATETIME, flag TINYINT UNSIGNED, body TEXT, bits BIT(1))"
    )
    cursor.execute(
        f"CREATE TABLE {name}_child (id INT PRIMARY KEY, parent INT, KEY k (parent),"
        f" CONSTRAINT {name}_fk FOREIGN KEY (parent) REFERENCES {name} (id) ON DELETE CASCADE)"
    )
    cursor.execute(f"CREATE VIEW {name}_view AS SELECT id FROM {name}")
    yield connection
    for what in (f"VIEW {name}_view", f"TABLE {name}_child", f"TABLE {name}"):
        cursor.execute(f"DROP {what}")
    connection.close()


def test_tables_and_views(odbc, gate, name):
    found = odbc.cursor().tables(catalog=gate.database, table=f"{name}%").fetchall()
    assert {(row.table_cat, row.table_name, row.table_type) for row in found} == {
        (gate.database, name, "TABLE"), (gate.database, f"{name}_child", "TABLE"),
        (gate.database, f"{name}_view", "VIEW"),
    }  # fmt: skip
    assert [row.table_name for row in odbc.cursor().tables(table=f"{name}%", tableType="VIEW")] == [f"{name}_view"]


def test_columns(odbc, name):
    found = odbc.cursor().columns(table=name).fetchall()
    assert [(r.column_name, r.data_type, r.type_name, r.column_size, r.buffer_length, r.nullable) for r in found] == [
        ("id", 4, "INT", 10, 4, 1), ("code", -9, "VARCHAR", 20, 80, 0), ("price", 3, "DECIMAL", 10, 12, 1),
        ("at", 93, "DATETIME", 19, 16, 1), ("flag", -6, "TINYINT UNSIGNED", 3, 1, 1),
        ("body", -10, "TEXT", 65535, 262140, 1), ("bits", -7, "BIT", 1, 1, 1),
    ]  # fmt: skip
    assert [(r.table_name, r.ordinal_position) for r in odbc.cursor().columns(table=f"{name}%", column="parent")] == [
        (f"{name}_child", 2)
    ]


@pytest.mark.skipif(SERVER == "mysql", reason="MariaDB's driver finds no keys in a MySQL, directly neither")
def test_keys(odbc, name):
    assert [r.column_name for r in odbc.cursor().primaryKeys(name)] == ["id"]
    (key,) = odbc.cursor().foreignKeys(foreignTable=f"{name}_child").fetchall()
    assert (key.pktable_name, key.pkcolumn_name, key.fkcolumn_name, key.delete_rule) == (name, "id", "parent", 0)
    assert [r.fktable_name for r in odbc.cursor().foreignKeys(table=name)] == [f"{name}_child"]
    keys = {(r.index_name, r.column_name, r.non_unique) for r in odbc.cursor().statistics(name) if r.index_name}
    assert keys == {("PRIMARY", "id", 0), ("code", "code", 0)}
    assert [r.column_name for r in odbc.cursor().statistics(f"{name}_child") if r.index_name == "k"] == ["parent"]


def test_what_identifies_a_row(odbc, name):
    assert ("id", 4) in [(r.column_name, r.data_type) for r in odbc.cursor().rowIdColumns(name)]
    assert odbc.cursor().rowVerColumns(name).fetchall() == []


def test_procedures_and_types(odbc):
    assert list(odbc.cursor().procedures(procedure="no_such_procedure")) == []
    assert odbc.cursor().procedureColumns(procedure="no_such_procedure").fetchall() == []
    assert {"INTEGER", "VARCHAR", "DATETIME"} <= {r.type_name for r in odbc.cursor().getTypeInfo()}


def test_values_there_and_back(odbc, name):
    odbc.cursor().execute(f"INSERT INTO {name} (code, price, flag) VALUES (?, ?, ?)", "a'b", 2.5, 7)
    (row,) = odbc.cursor().execute(f"SELECT code, price, flag, at FROM {name} WHERE code = ?", "a'b").fetchall()
    assert (row.code, float(row.price), row.flag, row.at) == ("a'b", 2.5, 7, None)
