"""Filters that the database evaluates: for any of them, the rows are those that Spark itself would keep."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from reading import described, own_fields, read, reader

from spark_connector.batch import filters
from spark_connector.client.columns import Field

UTC = dt.UTC


# Stand-ins for the classes of pyspark.sql.datasource, which are told by their names.
@dataclass(frozen=True)
class OnColumn:
    attribute: tuple[str, ...]
    value: Any = None


EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual = (
    type(name, (OnColumn,), {})
    for name in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")
)
In, IsNull, IsNotNull, StringStartsWith, StringEndsWith, StringContains = (
    type(name, (OnColumn,), {})
    for name in ("In", "IsNull", "IsNotNull", "StringStartsWith", "StringEndsWith", "StringContains")
)


@dataclass(frozen=True)
class Not:
    child: Any


def ordered(value: Any) -> Any:
    """What Spark compares: text by its bytes."""
    return value.encode() if isinstance(value, str) else value


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "StringStartsWith": lambda a, b: a.startswith(b),
    "StringEndsWith": lambda a, b: a.endswith(b),
    "StringContains": lambda a, b: b in a,
}


def holds(each: Any, row: dict[str, Any]) -> bool | None:
    """Spark's verdict on a row: true, false, or NULL."""
    kind = type(each).__name__
    if kind == "Not":
        inner = holds(each.child, row)
        return None if inner is None else not inner
    mine, other = row[each.attribute[0]], each.value
    if kind in ("IsNull", "IsNotNull"):
        return (mine is None) == (kind == "IsNull")
    if kind == "EqualNullSafe":
        return ordered(mine) == ordered(other)
    if mine is None:
        return None
    if kind == "In":
        return True if mine in [v for v in other if v is not None] else None if None in other else False
    return None if other is None else COMPARED[kind](ordered(mine), ordered(other))


TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "a  ",
    "á",
    "é",
    "e",
    "E",
    "ab",
    "a%",
    "a_",
    "a\\",
    "\\",
    "%",
    "_",
    "'",
    '"',
    "a'b",
    "\0",
    "a\0",
    "ß",
    "ss",
    "🦄",
    "z",
    "Z",
    "~",
    "é",
    "10",
    "9",
    "x" * 40,
    "\n",
    "null",
    "ｆｆ",
    "￿",
    "\U00010000",
]
BLOBS = [b"", b"\0", b"\0\0", b"a", b"A", b"a ", b"\xff", b"\xff\0", b"'", b"%", b"\\"]
MOMENTS = [dt.datetime(2024, 1, 2, 3, 4, 5, us) for us in (0, 1, 999999)] + [
    dt.datetime(1999, 12, 31),
    dt.datetime(2030, 1, 1, 12),
]
COLUMNS: dict[str, tuple[str, str, list[Any], list[Any]]] = {  # declared, Spark's, values, values that are not there
    "i": ("INT", "int", [-(2**31), -1, 0, 1, 2, 2**31 - 1], [5, -7]),
    "t": ("TINYINT UNSIGNED", "smallint", [0, 1, 200, 255], [-1, 256]),
    "l": ("BIGINT", "bigint", [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1], [3]),
    "u": (
        "BIGINT UNSIGNED",
        "decimal(20,0)",
        [Decimal(v) for v in (0, 1, 2**53 + 1, 2**63 - 1)],
        [Decimal(-1), Decimal(7)],
    ),
    "n": (
        "DECIMAL(10,3)",
        "decimal(10,3)",
        [Decimal(v) for v in ("-1.5", "0", "0.001", "1.500", "9999999.999")],
        [Decimal("2.5")],
    ),
    "m": (
        "DECIMAL(30,5)",
        "decimal(30,5)",
        [Decimal(v) for v in ("-1.5", "0", "1234567890123456789012345.00001", "1.5")],
        [Decimal("1234567890123456789012345.00002")],
    ),
    "d": (
        "DOUBLE",
        "double",
        [-1.5, 0.0, 0.1, 0.30000000000000004, 1e300, 5e-324],
        [0.3, float("nan"), float("inf"), -0.0],
    ),
    "f": ("FLOAT", "float", [-1.5, 0.0, 0.10000000149011612, 16777215.0], [0.1, float("nan")]),
    "b": ("BIT(1)", "boolean", [True, False], []),
    "s": ("VARCHAR(60)", "string", TEXTS, ["nope", "A "]),
    "c": ("CHAR(60)", "string", [v for v in TEXTS if v == v.rstrip(" ")], ["a ", "nope"]),
    "x": ("TEXT", "string", TEXTS, ["nope"]),
    "e": ("ENUM('b','a','Z')", "string", ["b", "a", "Z"], ["c", "", "A"]),
    "y": ("VARBINARY(20)", "binary", BLOBS, [b"zz"]),
    "g": (
        "DATE",
        "date",
        [dt.date(1000, 1, 1), dt.date(2024, 1, 2), dt.date(9999, 12, 31)],
        [dt.date(2024, 1, 3), dt.date(999, 1, 1)],
    ),
    "h": ("DATETIME(6)", "timestamp_ntz", MOMENTS, [dt.datetime(2024, 1, 2, 3, 4, 5, 2)]),
    "k": ("DATETIME", "timestamp_ntz", [v.replace(microsecond=0) for v in MOMENTS], MOMENTS),
    "w": (
        "TIMESTAMP(6) NULL",
        "timestamp",
        [v.replace(tzinfo=UTC) for v in MOMENTS],
        [
            dt.datetime(2024, 1, 2, 5, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2050, 1, 1, tzinfo=UTC),
        ],
    ),
    "r": ("YEAR", "int", [1901, 2024, 2155], [24, 0, 3000]),
}
OPERATORS = [EqualTo, EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
PARTS = [StringStartsWith, StringEndsWith, StringContains]


def a_filter(chance: random.Random) -> Any:
    name = chance.choice(list(COLUMNS))
    _, spark, there, not_there = COLUMNS[name]
    values = [*there, *not_there]
    shape = chance.random()
    if shape < 0.1:
        made = chance.choice([IsNull, IsNotNull])((name,))
    elif shape < 0.3:
        made = In((name,), tuple(chance.sample([*values, None], chance.randint(1, min(4, len(values))))))
    elif spark == "string" and shape < 0.6:
        part = chance.choice(values)
        cut = chance.randint(0, len(part))
        made = chance.choice(PARTS)((name,), chance.choice([part, part[:cut], part[cut:]]))
    else:
        operator = chance.choice(OPERATORS)
        made = operator((name,), None if operator is EqualNullSafe and chance.random() < 0.3 else chance.choice(values))
    return Not(made) if chance.random() < 0.3 else made


def fill(sql: Any, name: str) -> None:
    """Rows in which every value of every column is, and NULLs."""
    chance = random.Random(1)
    names = list(COLUMNS)
    rows = []
    for n in range(max(len(values) for _, _, values, _ in COLUMNS.values()) + 1):
        row = []
        for _, spark, values, _ in COLUMNS.values():
            value = values[n] if n < len(values) else chance.choice([None, *values])
            row.append(value.replace(tzinfo=None) if spark == "timestamp" and value else value)
        rows.append(row)
    sql("SET time_zone = '+00:00'")
    marks = ", ".join("b%s" if column[0] == "BIT(1)" else "%s" for column in COLUMNS.values())
    place = names.index("b")
    for row in [*rows, [None] * len(names)]:
        row[place] = None if row[place] is None else str(int(row[place]))
        text = marks.replace("b%s", "NULL" if row[place] is None else "b%s")
        args = [value for at, value in enumerate(row) if at != place or value is not None]
        sql(f"INSERT INTO {name} ({', '.join(names)}) VALUES ({text})", *args)


@pytest.fixture
def nasty(queue, sql):
    name = queue(", ".join(f"{column} {declared}" for column, (declared, *_) in COLUMNS.items()))
    fill(sql, name)
    return name


def test_any_filter_keeps_the_rows_that_spark_would(gate, nasty):
    fields = own_fields(gate, nasty)
    assert {field.name: field.type for field in fields if field.name in COLUMNS} == {
        name: spark for name, (_, spark, *_) in COLUMNS.items()
    }
    every = read(reader(gate, nasty)).to_pylist()
    assert len(every) > 30
    chance = random.Random(20261120)
    pushed = 0
    for _ in range(100):
        wanted = [a_filter(chance) for _ in range(chance.choice([1, 1, 2]))]
        core = reader(gate, nasty, numPartitions=1)
        rest = list(core.push(wanted))
        pushed += len(wanted) - len(rest)
        found = [row["id"] for row in read(core).to_pylist() if all(holds(each, row) for each in rest)]
        expected = [row["id"] for row in every if all(holds(each, row) for each in wanted)]
        assert sorted(found) == sorted(expected), wanted
    assert pushed > 85


def test_the_queue_columns(gate, sql, queue):
    name = queue("payload VARCHAR(20)")
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), ('c')")
    sql(f"ACK {name} 2")
    core = reader(gate, name, includeAcked="true")
    assert not list(core.push([EqualTo(("state",), "to_be_fired"), GreaterThan(("id",), 1)]))
    assert read(core).column("payload").to_pylist() == ["c"]


def test_what_is_left_to_spark(gate, queue):
    name = queue("j JSON, tm TIME, d DOUBLE, n INT, g VARCHAR(9)")
    seen, fields = described(gate, name), own_fields(gate, name)
    left = [
        EqualTo(("j",), "{}"),
        EqualTo(("tm",), "00:00:01"),
        EqualTo(("d",), float("nan")),
        In(("d",), (1.0,)),
        In(("n",), tuple(range(2000))),
        EqualTo(("n",), None),
        EqualTo(("nope",), 1),
        EqualTo(("g", "deeper"), 1),
        EqualTo(("n",), True),
        Not(EqualTo(("d",), float("inf"))),
        In(("n",), ()),
        StringContains(("g",), None),
    ]
    if not gate.embedded:
        left = left[0 if described(gate, name).column("j").base == "json" else 1 :]
    assert [each for each in left if filters.condition(each, seen, fields) is not None] == []
    wider = [Field("n", "string"), Field("g", "binary")]
    assert filters.condition(EqualTo(("n",), "1"), seen, wider) is None
    assert filters.condition(EqualTo(("g",), b"1"), seen, wider) is None
    assert filters.condition(EqualTo(("n",), 1), seen, [Field("n", "bigint")]) is not None


def test_names_with_percent_signs(gate, sql):
    sql("CREATE QUEUE `50%s off` (`a%d` VARCHAR(9))")
    sql("INSERT INTO `50%s off` (`a%d`) VALUES ('x%s'), ('y')")
    core = reader(gate, "50%s off", numPartitions=2)
    assert not list(core.push([StringContains(("a%d",), "%s")]))
    assert read(core).column("a%d").to_pylist() == ["x%s"]
    sql("DROP QUEUE `50%s off`")


def test_an_index_is_of_use(gate, sql, queue):
    if gate.embedded:
        pytest.skip("MariaDB's EXPLAIN")
    name = queue("k VARCHAR(40), UNIQUE KEY uk (k)")
    sql(f"INSERT INTO {name} (k) SELECT seq FROM seq_1_to_1000")
    found = filters.condition(EqualTo(("k",), "500"), described(gate, name), own_fields(gate, name))
    assert found is not None
    (plan,) = sql.rows(f"EXPLAIN SELECT id FROM {name} WHERE {found.sql}", *found.args)
    assert "uk" in plan
