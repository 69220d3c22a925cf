"""The tables that generated statements are about, and their rows: the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

NUMBER, TEXT, DATE, MOMENT, TIME = "number", "text", "date", "moment", "time"
UNSIGNED = "unsigned"  # apart: what a column of signed and unsigned numbers becomes, servers see differently


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its family, and how it is declared."""

    name: str
    family: str
    declared: str

    @property
    def exact(self) -> bool:
        """Whether it is no floating-point number."""
        return self.declared != "DOUBLE"


def _columns(listed: str) -> tuple[Column, ...]:
    """One a line: its name, its family, and how it is declared."""
    return tuple(Column(*line.split(maxsplit=2)) for line in listed.strip().splitlines())


T = _columns(
    """
    id number INT PRIMARY KEY
    i number INT
    u unsigned INT UNSIGNED
    b number BIGINT NOT NULL
    d number DECIMAL(8,2)
    w number DECIMAL(24,4)
    f number DOUBLE
    s text VARCHAR(20)
    c text VARCHAR(20) COLLATE utf8mb4_bin
    dy date DATE
    ts moment DATETIME
    tu moment DATETIME(3)
    tm time TIME
    e text ENUM('red','green','blue')
    """
)
R = _columns(
    """
    id number INT PRIMARY KEY
    tid number INT
    i number SMALLINT
    d number DECIMAL(10,3) NOT NULL
    s text VARCHAR(12) NOT NULL
    dy date DATE
    """
)
# For changes: M has keys of its own making, A numbers itself.
M = _columns(
    """
    id number INT PRIMARY KEY
    k number INT UNIQUE
    v number INT NOT NULL DEFAULT 7
    d number DECIMAL(8,2)
    w number DECIMAL(24,4)
    s text VARCHAR(8)
    dy date DATE
    """
)
A = _columns(
    """
    id number INT AUTO_INCREMENT PRIMARY KEY
    k number INT UNIQUE
    v number INT NOT NULL DEFAULT 3
    s text VARCHAR(8)
    """
)
# G has columns that are computed, and checks.
G = _columns(
    """
    id number INT PRIMARY KEY
    k number INT UNIQUE
    v number INT NOT NULL DEFAULT 7 CHECK (v > -10)
    d number DECIMAL(8,2)
    s text VARCHAR(12)
    """
)
COMPUTED = ("c INT AS (v * 2)", "p VARCHAR(30) AS (CONCAT(s, '-', v)) STORED", "h DECIMAL(10,2) AS (d + v)")
TABLES = {"t": T, "r": R, "m": M, "a": A, "g": G}
ROWS = {"t": 14, "r": 10, "m": 6, "a": 5, "g": 6}

# No two of them differ in case alone: which of two equal texts DISTINCT and GROUP BY show is nobody's promise.
WORDS = (
    "a",
    "b",
    "Kb",
    "abc",
    "xyz",
    "Zeta",
    "10",
    "9",
    "7up",
    "-3.5",
    "1e2",
    "hello world",
    "a%b",
    "q+r",
    "0",
    "日本",
    "b語",
)


def rows(name: str, seed: int) -> list[str]:
    """One INSERT for each row."""
    random = Random(f"{seed}/{name}")
    columns = ", ".join(one.name for one in TABLES[name])
    made = (", ".join(_value(random, one, number) for one in TABLES[name]) for number in range(1, ROWS[name] + 1))
    return [f"INSERT INTO {name} ({columns}) VALUES ({one})" for one in made]


def definitions() -> list[str]:
    return [
        f"CREATE TABLE {name} ({', '.join([*(f'{one.name} {one.declared}' for one in columns), *_further(name)])})"
        for name, columns in TABLES.items()
    ]


def _further(name: str) -> tuple[str, ...]:
    return (*COMPUTED, "CHECK (d < 300 OR s IS NULL)", "KEY (c)") if name == "g" else ()


def _value(random: Random, column: Column, number: int) -> str:
    declared = column.declared
    if column.name == "id":
        return str(number)
    if column.name == "k":
        return str(number * 10)
    if "NOT NULL" not in declared and random.random() < 0.2:
        return "NULL"
    if declared.startswith("ENUM"):
        return random.choice(("'red'", "'green'", "'blue'"))
    if column.family == TEXT:
        return f"'{random.choice([one for one in WORDS if len(one) < 9])}'"
    if column.family == DATE:
        return f"'{day(random)}'"
    if column.family == MOMENT:
        fraction = f".{random.choice((0, 250, 500))}" if "(3)" in declared else ""
        return f"'{day(random)} {clock(random)}{fraction}'"
    if column.family == TIME:
        return f"'{clock(random)}'"
    if declared.startswith("DOUBLE"):
        return f"{random.randint(-40, 40) / 4}e0"
    if "24,4" in declared:
        return f"{random.randint(-(10**12), 10**12)}.{random.randint(0, 9999):04}"
    if declared.startswith("DECIMAL"):
        return f"{random.randint(-20, 200)}.{random.randint(0, 99):02}"
    if declared.startswith("BIGINT"):
        return str(random.choice((random.randint(-9, 9), random.randint(-(10**4), 10**4))))
    return str(random.randint(0 if "UNSIGNED" in declared else -9, 12))


def day(random: Random) -> str:
    return f"20{random.randint(19, 26)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def clock(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.choice((0, 0, 15, 59)):02}"
