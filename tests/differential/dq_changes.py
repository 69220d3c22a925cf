"""Generated INSERT, REPLACE, UPDATE and DELETE, each with what shows its effect."""

from __future__ import annotations

from random import Random

from dq_expressions import Expressions, Source
from dq_schema import DATE, NUMBER, WORDS, A, Column, G, M, R, day, rows

VALUES = ("v + 1", "v * 2", "ROUND(d)", "9", "v", "IFNULL(k, 1)", "d * 1.5", "IF(s IS NULL, id, v)", "DEFAULT")
LAST_ID = "SELECT LAST_INSERT_ID()"
SEED = 1  # of the tables' first rows


def change(random: Random) -> list[str]:
    """A case: the tables are as they were, then one change, then what it left."""
    if random.random() < 0.35:
        return [
            "TRUNCATE TABLE a",
            "SELECT LAST_INSERT_ID(7)",
            *rows("a", SEED),
            _insert(random, "a", A),
            LAST_ID,
            "SELECT * FROM a ORDER BY id",
        ]
    if random.random() < 0.2:
        return _of_computed(random)
    shown = "SELECT * FROM m ORDER BY id"
    if random.random() < 0.2:
        return ["BEGIN", _of_m(random), "SAVEPOINT one", _of_m(random), shown, "ROLLBACK TO one", shown, "ROLLBACK"]
    return ["BEGIN", _of_m(random), shown, "ROLLBACK"]


def _of_m(random: Random) -> str:
    return random.choice((_insert_m, _insert_m, _update, _update, _delete, _joined))(random)


def _of_computed(r: Random) -> list[str]:
    """Changes of a table with computed columns and checks."""
    x = Expressions(r, [Source("g", G)], changes=True)
    where = f" WHERE {r.choice((x.condition(0), 'c > 8', 'p IS NULL', 'h > 20', 'c + 1 < h'))}"
    value = r.choice(("v + 1", "-v", "ROUND(d)", "5", "c", "LENGTH(p)", "7 - id"))
    text = r.choice(("UPPER(s)", "p", "'new'", "LEFT(CONCAT(s, id), 12)", "NULL"))
    made = r.choice(
        (
            f"UPDATE g SET v = {value}{where}{_some(r)}",
            f"UPDATE g SET s = {text}, d = v + {r.randint(-9, 99)}.5{where}",
            f"DELETE FROM g{where}",
            _insert(r, "g", G),
            _insert(r, "g", G),
            f"INSERT INTO g (id, v, s, c) VALUES (30, 1, 'x', {r.choice(('DEFAULT', '4'))})",
        )
    )
    return ["BEGIN", made, "SELECT * FROM g ORDER BY id", "SELECT id FROM g WHERE c > 9 ORDER BY c, id", "ROLLBACK"]


def _insert_m(random: Random) -> str:
    return _insert(random, "m", M)


def _literal(r: Random, column: Column, auto: bool, apart: int = 0) -> str:
    """`apart`: added to numbers that are given where others are generated (docs/testing.md, multi-row REPLACE)."""
    if column.name == "id" and auto:
        return r.choice(("NULL", "0", "DEFAULT", str(50 + apart), f"{r.randint(8, 90)}+{9 + apart}"))
    if column.name == "id":
        return str(r.randint(1, 12))
    if column.name == "k":
        return r.choice(("NULL", str(r.randint(1, 9) * 10), str(r.randint(61, 99))))
    if r.random() < 0.08:
        return "DEFAULT"
    if column.family == NUMBER:
        return r.choice((str(r.randint(-5, 20)), f"{r.randint(0, 99)}.{r.randint(0, 999)}", "'12'", "1+1", "2*3.5"))
    if column.family == DATE:
        return r.choice((f"'{day(r)}'", f"DATE '{day(r)}'", f"'{day(r)} 10:00:00'"))
    return r.choice(("NULL", f"'{r.choice([one for one in WORDS if len(one) < 9])}'", "CONCAT('x', 'y')", "5"))


def _insert(r: Random, table: str, columns: tuple[Column, ...]) -> str:
    auto = table == "a"
    chosen = [one for one in columns if r.random() < 0.8 or (one.name == "id" and not auto)]
    chosen = chosen or [columns[0]]
    names = ", ".join(one.name for one in chosen)
    ways = ("INSERT", "INSERT", "INSERT IGNORE", "REPLACE", "UPSERT", "UPSERT")
    how = r.choice([one for one in ways if table != "g" or one != "INSERT IGNORE"])  # a check is an error in MariaDB
    verb = "INSERT" if how == "UPSERT" else how
    tail = f" ON DUPLICATE KEY UPDATE {_assignments(r, table, chosen)}" if how == "UPSERT" else ""
    form = r.random()
    if form < 0.25 and not (auto and how in ("UPSERT", "INSERT IGNORE")):  # these use up numbers of their own
        return f"{verb} INTO {table} ({names}) {_selected(r, chosen, auto)}{tail}"
    if form < 0.35:
        pairs = ", ".join(f"{one.name} = {_literal(r, one, auto)}" for one in chosen)
        return f"{verb} INTO {table} SET {pairs}{tail}"
    # How many numbers several rows use up that are updated instead is told in docs/embedded.md.
    count = 1 if auto and how in ("UPSERT", "INSERT IGNORE") else r.choice((1, 1, 2, 3))
    step = 100 if how == "REPLACE" else 0
    listed = (f"({', '.join(_literal(r, one, auto, step * row) for one in chosen)})" for row in range(count))
    return f"{verb} INTO {table} ({names}) VALUES {', '.join(listed)}{tail}"


def _selected(r: Random, chosen: list[Column], auto: bool) -> str:
    items = []
    for column in chosen:
        if column.name == "id":
            items.append(r.choice(("NULL", "q.id + 20")) if auto else f"q.id + {r.choice((0, 3, 20))}")
        elif column.name == "k":
            items.append(r.choice(("q.id * 10", "q.id + 60", "NULL")))
        elif column.family == NUMBER:
            items.append(r.choice(("q.d", "q.id + 1", "ROUND(q.d)", "q.d * 2")))
        elif column.family == DATE:
            items.append("q.dy")
        else:
            items.append(r.choice(("LEFT(q.s, 8)", "'k'", "CONCAT(q.id)")))
    where = r.choice(("", f" WHERE q.id < {r.randint(1, 9)}"))
    return f"SELECT {', '.join(items)} FROM r q{where} ORDER BY q.id LIMIT {r.randint(1, 6)}"


def _assignments(r: Random, table: str, chosen: list[Column]) -> str:
    made = []
    for name in r.sample(("v", "s"), r.randint(1, 2)):
        known = name in {one.name for one in chosen}
        given = f"VALUES({name})" if known else f"{table}.{name}"
        if name == "v":
            larger = f"IF({given} > {table}.v, {given}, {table}.v)"
            plain = (given, f"{table}.v + 1", "4", f"{table}.v + {given}", f"{table}.v")
            made.append(f"v = {r.choice((*plain, larger, f'GREATEST({table}.v, {given}) + {table}.id'))}")
        else:
            joined = f"LEFT(CONCAT_WS('-', {table}.v, {given}), 8)"
            made.append(f"s = {r.choice((given, f'UPPER({table}.s)', repr('z'), f'{table}.s', 'NULL', joined))}")
    return ", ".join(made)


def _update(r: Random) -> str:
    x = Expressions(r, [Source("m", M)], changes=True)
    made = []
    for name in r.sample(("v", "d", "w", "s", "dy", "k"), r.randint(1, 3)):
        made.append(
            {
                "v": lambda: f"v = {r.choice((*VALUES, '(SELECT COUNT(*) FROM r q WHERE q.tid = m.id)'))}",
                "d": lambda: f"d = {r.choice(('d + 0.25', 'd * 2', 'v / 3', 'NULL', 'd', '-d', 'ROUND(d, 1)'))}",
                "w": lambda: f"w = {r.choice(('w + 0.0001', 'w * 2', 'w - d', 'd', 'w / 7', 'v', 'w * d'))}",
                "s": lambda: f"s = {r.choice(('UPPER(s)', repr('new'), 'v', 's', 'LEFT(CONCAT(s, s), 8)'))}",
                "dy": lambda: f"dy = {r.choice(('dy + INTERVAL 1 DAY', 'NULL', f'{chr(39)}{day(r)}{chr(39)}'))}",
                "k": lambda: f"k = {r.choice(('k + 1', 'id + 100', 'NULL', '70'))}",
            }[name]()
        )
    where = f" WHERE {x.condition(1)}" if r.random() < 0.7 else ""
    return f"UPDATE m SET {', '.join(made)}{where}{_some(r)}"


def _some(r: Random) -> str:
    order = r.choice(("", f" ORDER BY {r.choice(('', '', 'v, ', 's DESC, '))}id{r.choice(('', ' DESC'))}"))
    return f"{order} LIMIT {r.randint(0, 4)}" if order and r.random() < 0.8 else order


def _delete(r: Random) -> str:
    x = Expressions(r, [Source("m", M)], changes=True)
    where = f" WHERE {x.condition(1)}" if r.random() < 0.8 else ""
    if r.random() < 0.2:
        query = f"SELECT tid FROM r WHERE d > {r.randint(0, 90)}"
        where = f" WHERE {r.choice(('id', 'v'))} {r.choice(('', 'NOT '))}IN ({query})"
    return f"DELETE FROM m{where}{_some(r)}"


def _joined(r: Random) -> str:
    x = Expressions(r, [Source("m", M), Source("q", R)], changes=True)
    where = f" WHERE {x.condition(1)}" if r.random() < 0.6 else ""
    on = r.choice(("m.id = q.id", "m.id = q.id AND q.i > 1"))
    if r.random() < 0.15:
        return f"DELETE m FROM m LEFT JOIN r q ON q.tid = m.id WHERE q.id IS {r.choice(('', 'NOT '))}NULL"
    if r.random() < 0.5:
        return f"DELETE m FROM m JOIN r q ON {on}{where}"
    made = r.choice(("m.v = q.id + 1", "m.d = q.d", "m.s = LEFT(q.s, 8), m.v = m.v + 1"))
    return f"UPDATE m JOIN r q ON {on} SET {made}{where}"
