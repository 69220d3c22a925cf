"""MySQL statements in, SQLite statements out; and the cache that saves compiling them again."""

from __future__ import annotations

import pytest

from embedded.compile.definitions.read import read_definition
from embedded.compile.functions import numbers
from embedded.compile.plan import Insert, InsertMode, Modify, Query, RowLock
from embedded.compile.schema import Schema, from_json, to_json
from embedded.compile.statement import PlanCache, compile_statement
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.rows import split_rows
from embedded.compile.text.tokens import Tokens
from rewriter.errors import RewriteError

TABLES = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), bin VARCHAR(9) COLLATE utf8mb4_bin,"
    " d DECIMAL(8,2),"
    " day DATE, at DATETIME(3), dur TIME, j JSON, e ENUM('x', 'y'), data BLOB, big BIGINT UNSIGNED)",
    "CREATE TABLE u (id INT PRIMARY KEY, t_id INT)",
)


def table(sql):
    lifted = lift(sql)
    return read_definition(Tokens(lifted.shape, lifted.values)).table


SCHEMA = Schema(1, {made.name: made for made in map(table, TABLES)})


def plan(sql, *params, modes=None):
    lifted = lift(sql, list(params) or None)
    return compile_statement(lifted.shape, lifted.values, SCHEMA, modes or Modes()).plan


def sql_of(sql, *params):
    made = plan(sql, *params)
    return made.statements[0].sql if isinstance(made, Modify) else made.statement.sql


@pytest.mark.parametrize(
    ("mysql", "sqlite"),
    [
        ("1 / 2", "qg_exact_divide(?1, ?2, 9)"),
        ("5 DIV 2", "(?1 / ?2)"),
        ("id / 2", "qg_exact_divide(`t`.`id`, ?1, 9)"),
        ("d + 1.5", "qg_exact_add(`t`.`d`, ?1)"),
        ("id - 2", "(`t`.`id` - ?1)"),
        ("big - 2", "qg_whole('-', `t`.`big`, ?1, 0, '`main`.`t`.`big` - {1}')"),
        ("big + big", "(`t`.`big` + `t`.`big`)"),
        ("CAST(id AS UNSIGNED) * 2", "qg_whole('*', `t`.`id`, ?1, 1, 'cast(`main`.`t`.`id` as unsigned) * {1}')"),
        ("1 - CAST(2 AS UNSIGNED)", "qg_whole('-', ?1, ?2, 2, '{0} - cast({1} as unsigned)')"),
        ("big - 2.5", "qg_exact_subtract(`t`.`big`, ?1)"),
        ("d DIV 2", "qg_exact_quotient(`t`.`d`, ?1)"),
        ("name = 5", "(CAST(`t`.`name` AS REAL) = ?1)"),
        ("id = '5'", "(`t`.`id` = ?1)"),
        ("name = 'x'", "(`t`.`name` = ?1)"),
        ("bin = 'x'", "(`t`.`bin` = ?1)"),
        ("UPPER(name) = 'X'", "(qg_upper(1, `t`.`name`) COLLATE NOCASE = ?1)"),
        ("name = bin", "(`t`.`name` COLLATE BINARY = `t`.`bin`)"),
        ("day = at", "((`t`.`day` || ' 00:00:00.000') = `t`.`at`)"),
        ("day = '2024-1-2'", "(`t`.`day` = ?1)"),
        ("data = name", "(`t`.`data` = CAST(`t`.`name` AS BLOB))"),
        ("id <=> NULL", "(`t`.`id` IS NULL)"),
        ("a.id IN (1, 2)", None),
        ("id IN (1, '2')", "(`t`.`id` IN (?1, ?2))"),
        ("name LIKE 'a%'", "(`t`.`name` LIKE ?1 ESCAPE '\\')"),
        ("bin LIKE 'a%'", "qg_like(`t`.`bin`, ?1, '\\', 1)"),
        ("j->>'$.a'", "qg_json_unquote(2, qg_json_extract(1, `t`.`j`, ?1))"),
        ("1 || 0", "(?1 OR ?2)"),
        ("1 XOR 0", "((NOT ?1) <> (NOT ?2))"),
        ("1 | 2 & 3", "(?1 | (?2 & ?3))"),
        ("NOT id = 1", "(NOT (`t`.`id` = ?1))"),
        ("! id = 1", "((NOT `t`.`id`) = ?1)"),
        ("COUNT(DISTINCT name)", "COUNT(DISTINCT `t`.`name`)"),
        ("SUM(d)", "qg_exact_scaled(SUM(CAST(ROUND(`t`.`d` * 1e2) AS INTEGER)), 2)"),
    ],
)
def test_expressions(mysql, sqlite):
    if sqlite is None:
        with pytest.raises(RewriteError):
            sql_of(f"SELECT {mysql} AS x FROM t")
        return
    text = sql_of(f"SELECT {mysql} AS x FROM t")
    assert (
        text.removeprefix("SELECT ")
        .removesuffix(" AS `x` FROM main.`t` AS `t`")
        .replace("((NOT `t`.`id`))", "(NOT `t`.`id`)")
        == sqlite
    )


@pytest.mark.parametrize(
    ("sign", "left", "right", "bits", "result"),
    [
        ("-", 3, 2, 0, 1),
        ("+", 3, -3, 0, 0),
        ("-", -1, 1, 1, -2),  # 2^64-1 - 1, as 64 bits
        ("*", (1 << 62), 2, 1, -(1 << 63)),
        ("DIV", -1, 2, 1, (1 << 63) - 1),
        ("DIV", 7, -8, 0, 0),
        ("DIV", 7, 0, 0, None),
    ],
)
def test_whole_numbers_of_which_one_has_no_sign(sign, left, right, bits, result):
    assert numbers.whole(None, sign, left, right, bits, "") == result


@pytest.mark.parametrize(
    ("sign", "left", "right", "bits", "text"),
    [
        ("-", 1, 2, 0, "in '1 - 2'"),
        ("DIV", -7, 2, 2, "in '-7 DIV 2'"),
        ("+", -1, 1, 1, "in '18446744073709551615 + 1'"),
        ("+", (1 << 63) - 1, 1, 0, ": the embedded backend counts up to 2^63-1"),
    ],
)
def test_a_number_without_sign_that_there_is_none_of(sign, left, right, bits, text):
    with pytest.raises(RewriteError) as raised:
        numbers.whole(None, sign, left, right, bits, f"{{0}} {sign} {{1}}")
    assert raised.value.errno == 1690
    assert raised.value.message.partition("out of range")[2].strip() == text.strip()


def test_placeholders_are_shared_and_values_stay_out_of_the_text():
    made = plan("SELECT id FROM t WHERE name = 'Robert''); DROP TABLE t; --' OR name = ?", "x' OR 1=1 -- ")
    assert isinstance(made, Query)
    assert "Robert" not in made.statement.sql
    assert "OR 1=1" not in made.statement.sql
    assert [bind.slot for bind in made.statement.binds] == [0, 1]


def test_result_columns_are_described_as_mysql_does():
    made = plan("SELECT id, name AS n, COUNT(*), d * 2, 'x', at FROM t GROUP BY id")
    assert isinstance(made, Query)
    described = [(column.meta.name, column.meta.type, column.meta.decimals) for column in made.columns]
    assert described == [
        ("id", 3, 0), ("n", 253, 0), ("COUNT(*)", 8, 0), ("d * 2", 246, 2), ("x", 253, 0), ("at", 12, 3),
    ]  # fmt: skip
    meta = made.columns[1].meta
    assert (meta.org_name, meta.table, meta.org_table, meta.schema, meta.length) == ("name", "t", "t", "main", 80)


@pytest.mark.parametrize(
    ("sql", "mode"),
    [
        ("INSERT INTO t (name) VALUES ('a')", InsertMode.FAIL),
        ("INSERT LOW_PRIORITY IGNORE t (name) VALUE ('a')", InsertMode.IGNORE),
        ("REPLACE t SET name = 'a'", InsertMode.REPLACE),
        ("INSERT INTO t SET name = 'a' ON DUPLICATE KEY UPDATE name = VALUES(name)", InsertMode.UPDATE),
        ("INSERT INTO t (name) VALUES ('a') AS new ON DUPLICATE KEY UPDATE name = new.name", InsertMode.UPDATE),
        ("INSERT INTO t (name) VALUES ('a') AS new(n) ON DUPLICATE KEY UPDATE name = n", InsertMode.UPDATE),
    ],
)
def test_kinds_of_insert(sql, mode):
    if sql.endswith("= n"):
        with pytest.raises(RewriteError, match="Unknown column 'n'"):
            plan(sql)
        sql = sql.replace("= n", "= new.n")
    made = plan(sql)
    assert isinstance(made, Insert)
    assert (made.mode, made.rows, made.auto_bind) == (mode, True, -1)


def test_locks():
    assert plan("SELECT 1 FROM t").lock is None
    assert plan("SELECT 1 FROM t FOR UPDATE").lock == RowLock()
    assert plan("SELECT 1 FROM t FOR UPDATE SKIP LOCKED").lock == RowLock()
    assert plan("SELECT 1 FROM t FOR UPDATE NOWAIT").lock == RowLock(0)
    assert plan("SELECT 1 FROM t LOCK IN SHARE MODE").lock == RowLock()
    assert plan("SELECT 1 FROM t FOR UPDATE WAIT 7").lock == RowLock(7)


def test_rows_are_cut_where_they_end():
    lifted = lift(
        "INSERT INTO t (id, name) VALUES (1, CONCAT('a', ')')), (2, '),('), (DEFAULT, NULL)"
        " ON DUPLICATE KEY UPDATE id = 5"
    )
    rows = split_rows(lifted.shape)
    assert rows is not None
    assert [[lifted.values[slot] for part in row.slots for slot in part] for row in rows] == [
        [1, "a", ")", 5], [2, "),(", 5], [5],
    ]  # fmt: skip
    assert all(row.shape.endswith(rows[0].shape[-30:]) for row in rows)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1, 2)",
        "INSERT INTO t SELECT 1 FROM u ON DUPLICATE KEY UPDATE id = VALUES(id), name = VALUES(name)",
        "SELECT 1 IN ((1), (2))",
        "UPDATE t SET id = 1",
    ],
)
def test_other_statements_have_no_rows(sql):
    assert split_rows(lift(sql).shape) is None


def test_the_cache_hits_by_shape_and_misses_by_schema():
    cache = PlanCache(limit=3)

    def ask(sql, schema=SCHEMA, modes=None):
        lifted = lift(sql)
        return cache.plan(lifted.shape, lifted.values, schema, modes or Modes())

    first = ask("SELECT id FROM t WHERE id = 1")
    assert ask("SELECT id FROM t WHERE id = 22") is first
    assert (cache.hits, cache.misses) == (1, 1)
    ask("SELECT id FROM t WHERE id = 1", Schema(2, SCHEMA.tables))
    ask("SELECT id FROM t WHERE id = 1", modes=Modes(utc=False))
    assert cache.misses == 3
    for n in range(20):
        ask(f"SELECT id AS c{n} FROM t")
    assert len(cache._plans) <= 3


def test_the_cache_is_bounded_in_bytes():
    cache = PlanCache(bytes_max=100_000)

    def ask(sql):
        lifted = lift(sql)
        return cache.plan(lifted.shape, lifted.values, SCHEMA, Modes())

    kept = ask("SELECT id FROM t WHERE id = 1")
    for n in range(40):
        ask("SELECT " + ", ".join(f"id AS c{n}_{at}" for at in range(50)) + " FROM t")
        assert ask("SELECT id FROM t WHERE id = 1") is kept, "the most recently used goes last"
        assert cache.bytes <= 100_000
    assert 1 < len(cache) < 15
    assert len(cache._shapes) <= len(cache), "a shape without plans is forgotten"
    before = len(cache)
    ask(f"SELECT '{'x' * 200_000}'")  # the column's name is the value, so the plan is larger than all the room
    assert len(cache) <= before
    assert cache.bytes <= 100_000


def test_plans_of_an_older_schema_are_forgotten():
    cache = PlanCache()
    lifted = lift("SELECT id FROM t WHERE id = 1")
    for version in (3, 4, 3):
        cache.plan(lifted.shape, lifted.values, Schema(version, SCHEMA.tables), Modes())
        assert len(cache) == len(cache._shapes) == 1
    assert cache._version == 4
    cache.plan(lifted.shape, lifted.values, Schema(4, SCHEMA.tables), Modes())
    assert (cache.hits, cache.misses) == (1, 3)


def test_values_that_shape_the_plan_are_part_of_its_key():
    cache = PlanCache()

    def ask(sql):
        lifted = lift(sql)
        return cache.plan(lifted.shape, lifted.values, SCHEMA, Modes())

    assert "ORDER BY 1" in ask("SELECT id, name FROM t ORDER BY 1").statement.sql
    assert "ORDER BY 2" in ask("SELECT id, name FROM t ORDER BY 2").statement.sql
    assert ask("SELECT 5").columns[0].meta.name == "5"
    assert ask("SELECT 6").columns[0].meta.name == "6"
    assert ask("SELECT ROUND(d, 1) AS x FROM t").columns[0].meta.decimals == 1
    assert ask("SELECT ROUND(d, 0) AS x FROM t").columns[0].meta.decimals == 0


@pytest.mark.parametrize("sql", TABLES)
def test_definitions_survive_the_dictionary(sql):
    made = table(sql)
    assert from_json(to_json(made)) == made
