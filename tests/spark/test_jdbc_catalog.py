"""Spark's JDBC catalog through the proxy: what it pushes down, and what it defines."""

from __future__ import annotations

import pytest
from jdbc_sources import MARIADB, Jdbc, plain, same


@pytest.fixture
def filled(jdbc, direct, name):
    for place in (jdbc, direct):
        place.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k VARCHAR(9), n INT, v DECIMAL(10,3), at DATETIME(6))")
        rows = ",".join(
            f"({i},'k{i % 5}',{'NULL' if i % 2 else i},{i}.125,'2024-01-{i % 28 + 1:02d}')" for i in range(100)
        )
        place.sql(f"INSERT INTO {name} VALUES {rows}")
    yield name
    for place in (jdbc, direct):
        place.sql(f"DROP TABLE IF EXISTS {name}")


def run(place: Jdbc, statement: str):
    """The rows, and what the database was given of the plan."""
    frame = place.spark.sql(statement.replace("{db}", f"{place.catalog()}.{place.database}"))
    return plain(frame.collect())


def test_namespaces_and_tables_are_listed(jdbc, filled):
    catalog = jdbc.catalog()
    assert (jdbc.database,) in plain(jdbc.spark.sql(f"SHOW NAMESPACES IN {catalog}").collect())
    tables = jdbc.spark.sql(f"SHOW TABLES IN {catalog}.{jdbc.database}").collect()
    assert filled in [row.tableName for row in tables]


@pytest.mark.parametrize("driver", [MARIADB], ids=["mariadb_connector_j"], indirect=True)  # the text is Spark's own
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*), MAX(n), MIN(v), SUM(id), AVG(id) FROM {t} WHERE n IS NULL GROUP BY k",
        "SELECT COUNT(DISTINCT k), SUM(n) FROM {t}",
        "SELECT id, v FROM {t} WHERE n IS NOT NULL ORDER BY v DESC LIMIT 5",
        "SELECT id FROM {t} ORDER BY n NULLS LAST, id LIMIT 3",
        "SELECT id FROM {t} ORDER BY n NULLS FIRST, id DESC LIMIT 3",
        "SELECT id FROM {t} ORDER BY id LIMIT 5 OFFSET 3",
        "SELECT id FROM {t} WHERE upper(k) = 'K1' AND year(at) = 2024 AND dayofmonth(at) = 2",
        "SELECT id FROM {t} WHERE sqrt(id) < 3 AND floor(v) > 0 AND power(id, 2) < 50",
        "SELECT id FROM {t} WHERE startswith(k, 'k1') OR endswith(k, '3') OR contains(k, '4')",
        "SELECT CASE WHEN id < 10 THEN 'a' ELSE 'b' END x, COUNT(*) FROM {t} GROUP BY 1",
        "SELECT a.id, b.k FROM {t} a JOIN {t} b ON a.id = b.id WHERE a.id < 4",
    ],
)
def test_what_is_pushed_down_is_what_the_server_itself_says(jdbc, direct, filled, query):
    rows = same(jdbc, direct, lambda place: run(place, query.replace("{t}", f"{{db}}.{filled}")))
    assert rows


def test_limit_and_offset_without_an_order(jdbc, filled):
    table = f"{jdbc.catalog()}.{jdbc.database}.{filled}"
    assert len(jdbc.spark.sql(f"SELECT id FROM {table} LIMIT 7 OFFSET 95").collect()) == 5


def test_tables_are_made_filled_changed_renamed_and_dropped(jdbc, direct, filled):
    made = f"{filled}_x"

    def work(place: Jdbc):
        def do(statement: str):
            return run(place, statement.replace("{t}", f"{{db}}.{made}"))

        do("CREATE TABLE {t} (id BIGINT, m STRING, q DECIMAL(10,2) NOT NULL) COMMENT 'made by Spark'")
        do("INSERT INTO {t} VALUES (1, 'a', 1.5), (2, NULL, 2)")
        do("ALTER TABLE {t} ADD COLUMNS (z INT, y STRING)")
        do("ALTER TABLE {t} ALTER COLUMN id TYPE DECIMAL(20,0)")
        do("ALTER TABLE {t} DROP COLUMN y")
        do("INSERT INTO {t} (id, m, q) VALUES (3, 'c', 3)")
        described, rows = do("DESCRIBE {t}"), do("SELECT * FROM {t}")
        do(f"ALTER TABLE {{t}} RENAME TO {place.database}.{made}2")
        counted = run(place, f"SELECT COUNT(*) FROM {{db}}.{made}2")
        run(place, f"CREATE TABLE {{db}}.{made}3 AS SELECT id, k FROM {{db}}.{filled} WHERE id < 4")
        copied = run(place, f"SELECT * FROM {{db}}.{made}3")
        for number in (2, 3):
            run(place, f"DROP TABLE {{db}}.{made}{number}")
        return [row[:2] for row in described], rows, counted, copied, place.sql.rows(f"SHOW TABLES LIKE '{made}%'")

    described, rows, counted, copied, left = same(jdbc, direct, work)
    assert ("id", "decimal(20,0)") in described and len(rows) == 3
    assert (counted, len(copied), left) == ([(3,)], 4, [])


def test_an_index_is_made_and_dropped(jdbc, direct, filled):
    def work(place: Jdbc):
        run(place, f"CREATE INDEX spark_made ON {{db}}.{filled} (n)")
        made = place.sql.rows(f"SHOW INDEX FROM {filled} WHERE Key_name = 'spark_made'")
        run(place, f"DROP INDEX spark_made ON {{db}}.{filled}")
        return len(made), place.sql.rows(f"SHOW INDEX FROM {filled} WHERE Key_name = 'spark_made'")

    assert same(jdbc, direct, work) == (1, [])
