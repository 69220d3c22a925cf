"""Generated queries and changes. A `Case` is a few statements whose answers are all compared; a number is a case."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from dq_changes import change
from dq_expressions import FAMILIES, Expressions, Source
from dq_schema import DATE, MOMENT, NUMBER, TABLES, TEXT, R, T

PARTITIONS = ("", "PARTITION BY q.i ", "PARTITION BY q.s ", "PARTITION BY q.e ", "PARTITION BY YEAR(q.dy) ")
ORDERS = ("q.id", "q.id DESC", "q.d, q.id", "q.s DESC, q.id", "q.e, q.id")  # no two rows are equal
FRAMES = (
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
)


@dataclass(frozen=True, slots=True)
class Case:
    """Statements in order. `ordered` says which of them have rows in an order of their own."""

    statements: tuple[str, ...]
    ordered: bool = False
    kind: str = "query"

    @property
    def folded(self) -> bool:
        """Whether texts may differ in case alone: which of two equal ones is shown is nobody's promise."""
        return self.kind == "query" and any(word in self.statements[0] for word in ("UPPER(", "LOWER("))


def case(seed: int, number: int) -> Case:
    """The case of that number under a seed."""
    random = Random(f"{seed}/{number}")
    if random.random() < 0.25:
        return Case(tuple(change(random)), True, "change")
    text, ordered = Queries(random).top()
    return Case((text,), ordered)


@dataclass(slots=True)
class Queries:
    """Makes queries."""

    random: Random
    aliases: int = 0
    quotients: bool = False
    united: bool = False  # in a set operation

    def top(self) -> tuple[str, bool]:
        """A whole query, and whether its rows have an order."""
        r = self.random
        families = [r.choice(FAMILIES) for _ in range(r.randint(1, 3))]
        shape = r.random()
        if shape < 0.22:
            body = self.set_operation(families, 2)
        elif shape < 0.4:
            body, families = self.grouped()
        elif shape < 0.48:
            body, families = self.windowed(), [NUMBER] * 3
        elif shape < 0.52:
            body, families = self.chosen_by_window(), [NUMBER] * 3
        elif shape < 0.57:
            return self.sorted(families), True
        elif shape < 0.6:
            return self.joined(families), True
        elif shape < 0.64:
            body = self.derived(families)
        elif shape < 0.7:
            body = self.common(families)
        else:
            self.quotients = True
            body = self.select(families, 2)
        return self._ordered(body, len(families))

    def _ordered(self, body: str, width: int) -> tuple[str, bool]:
        r = self.random
        if r.random() < 0.4:
            return body, False
        # Every column is a key, so rows that are equal in all keys are the same.
        keys = ", ".join(f"{n}{r.choice(('', ' DESC'))}" for n in r.sample(range(1, width + 1), width))
        skipped = f" OFFSET {r.randint(0, 3)}"
        if "SELECT DISTINCT" in body:  # of constants MariaDB skips none
            skipped = ""
        limit = r.choice(("", "", f" LIMIT {r.randint(0, 6)}", f" LIMIT {r.randint(1, 6)}{skipped}"))
        return f"{body} ORDER BY {keys}{limit}", True

    def _alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def origin(self) -> tuple[str, list[Source]]:
        """FROM: a table or two."""
        r = self.random
        one = self._alias()
        if r.random() < 0.55:
            name = r.choice(("t", "t", "r"))
            return f" FROM {name} {one}", [Source(one, TABLES[name])]
        other = self._alias()
        sources = [Source(one, T), Source(other, R)]
        join = r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "INNER JOIN", "CROSS"))
        if join == "CROSS":
            return f" FROM t {one}, r {other}", sources
        on = r.choice(
            (f"{one}.id = {other}.tid", f"{one}.i = {other}.i", f"{one}.id = {other}.tid AND {one}.s < {other}.s")
        )
        return f" FROM t {one} {join} r {other} ON {on}", sources

    def expressions(self, sources: list[Source], outer: list[Source] | None = None, inside: int = 0) -> Expressions:
        made = Expressions(self.random, [*sources, *(outer or [])], quotients=self.quotients)
        if inside < 1:
            made.query = lambda family, one: self.subquery(family, one, sources, inside + 1)
        return made

    def subquery(self, family: str, one: bool, outer: list[Source], inside: int) -> str:
        """A query of one column; `one`: of one row."""
        r = self.random
        text, sources = self.origin()
        x = self.expressions(sources, outer if r.random() < 0.5 else None, inside)
        where = f" WHERE {x.condition(1)}" if r.random() < 0.6 else ""
        if one:
            extreme = r.choice(("MIN", "MAX"))
            return f"SELECT {extreme}({self.expressions(sources, None, inside).of(family, 0)}){text}{where}"
        item = x.of(family, r.randint(0, 1)).replace(".e", ".s")  # MariaDB loses the NULLs of an ENUM in IN
        return f"SELECT {item}{text}{where}"

    def select(self, families: list[str], depth: int) -> str:
        """A plain SELECT."""
        r = self.random
        if r.random() < 0.08:
            x = Expressions(r, [])
            return f"SELECT {', '.join(f'{self._item(x, one, depth)} AS c{n}' for n, one in enumerate(families))}"
        text, sources = self.origin()
        x = self.expressions(sources)
        items = ", ".join(f"{self._item(x, one, r.randint(0, depth))} AS c{n}" for n, one in enumerate(families))
        where = f" WHERE {x.condition(r.randint(0, depth))}" if r.random() < 0.7 else ""
        return f"SELECT {r.choice(('', '', 'DISTINCT '))}{items}{text}{where}"

    def _item(self, x: Expressions, family: str, depth: int) -> str:
        """A column of a query.

        For a set operation, MariaDB counts a digit less than a number has that it knows beforehand, and cuts it:
        `SELECT NULLIF(62, 1) UNION SELECT 1.5` is 9.9. What is added to gets the digit back. An ENUM beside NULL
        sorts as an ENUM there, which the embedded backend refuses.
        """
        item = x.of(family, depth)
        if not self.united:
            return item
        return f"({item} + 0)" if family == NUMBER else re.sub(r"^(q\d+)\.e$", r"\1.s", item)

    def set_operation(self, families: list[str], depth: int) -> str:
        """Set operations, with and without parentheses on both sides."""
        r = self.random
        self.united = True
        if depth == 0 or r.random() < 0.15:
            return self.select(families, 1)
        word = r.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "UNION DISTINCT"))
        return f"{self._operand(families, depth - 1)} {word} {self._operand(families, depth - 1)}"

    def _operand(self, families: list[str], depth: int) -> str:
        r = self.random
        inner = self.set_operation(families, depth)
        if r.random() < 0.5:
            return inner
        if r.random() < 0.25:
            keys = ", ".join(str(n + 1) for n in range(len(families)))
            return f"({inner} ORDER BY {keys} LIMIT {r.randint(1, 5)})"
        return f"({inner})"

    def grouped(self) -> tuple[str, list[str]]:
        """GROUP BY with aggregates and HAVING."""
        r = self.random
        text, sources = self.origin()
        x = self.expressions(sources, None, 1)
        family = r.choice((NUMBER, TEXT, TEXT, DATE, MOMENT))
        key = x.of(family, r.randint(0, 1))
        if family == NUMBER:  # of a quotient MariaDB forms groups by more decimals than it shows
            key = x.whole(1)
            family = NUMBER
        items = [self.aggregate(x) for _ in range(r.randint(1, 3))]
        where = f" WHERE {x.condition(1)}" if r.random() < 0.4 else ""
        having = f" HAVING {self._having(x)}" if r.random() < 0.35 else ""
        if r.random() < 0.25:
            listed = ", ".join(f"{one} AS c{n}" for n, one in enumerate(items))
            return f"SELECT {listed}{text}{where}", [NUMBER] * len(items)
        listed = ", ".join(f"{one} AS c{n}" for n, one in enumerate([key, *items]))
        return f"SELECT {listed}{text}{where} GROUP BY {r.choice((key, 'c0'))}{having}", [family] + [NUMBER] * len(
            items
        )

    def _having(self, x: Expressions) -> str:
        r = self.random
        return r.choice(
            (
                lambda: f"COUNT(*) {r.choice('<>=')} {r.randint(1, 4)}",
                lambda: f"SUM({x.exact(1)}) > {r.randint(-5, 50)}",
                lambda: f"AVG({x.exact(0)}) IS NOT NULL AND MIN({x.exact(0)}) < {r.randint(0, 9)}",
                lambda: "c1 IS NOT NULL",
                lambda: "c0 IS NOT NULL",
            )
        )()

    def aggregate(self, x: Expressions) -> str:
        r = self.random
        return r.choice(
            (
                lambda: "COUNT(*)",
                lambda: f"COUNT({r.choice(('', 'DISTINCT '))}{x.of(r.choice(FAMILIES), 1)})",
                lambda: f"COUNT(DISTINCT {x.of(r.choice(FAMILIES), 0)}, {x.of(r.choice(FAMILIES), 0)})",
                lambda: f"SUM(IF({x.condition(0)}, {x.exact(0)}, 0))",
                lambda: f"COUNT(CASE WHEN {x.condition(0)} THEN 1 END)",
                lambda: f"(MAX({x.exact(0)}) - MIN({x.exact(0)}))",
                lambda: f"DATEDIFF(MAX({x.of(DATE, 0)}), MIN({x.of(DATE, 0)}))",
                lambda: f"SUM({r.choice(('', '', 'DISTINCT '))}{x.exact(1)})",
                lambda: f"AVG({x.exact(1)})",
                lambda: f"SUM({x.number(0)})",
                lambda: f"{r.choice(('MIN', 'MAX'))}({x.of(r.choice(FAMILIES), 1)})".replace(".e", ".s"),
                lambda: self._joined(x, ""),
                lambda: f"SUM({x.condition(0)})",
                lambda: f"(SUM({x.exact(0)}) {r.choice('+-*/')} {x.numeral()})",
                lambda: f"ROUND(AVG({x.exact(0)}), {r.randint(0, 3)})",
                lambda: self._joined(x, "DISTINCT "),
            )
        )()

    def _joined(self, x: Expressions, distinct: str) -> str:
        text = x.text(0)
        return f"GROUP_CONCAT({distinct}{text} ORDER BY {text} SEPARATOR ';')"

    def windowed(self) -> str:
        """Window functions over an order that leaves nothing open."""
        r = self.random
        x = Expressions(r, [Source("q", T)])
        over = f"({r.choice(PARTITIONS)}ORDER BY {r.choice(ORDERS)}{r.choice(FRAMES)})"
        calls = [
            lambda: f"SUM({x.exact(0)})",
            lambda: f"AVG({x.exact(0)})",
            lambda: "COUNT(*)",
            lambda: f"{r.choice(('FIRST_VALUE', 'LAST_VALUE'))}({x.of(r.choice((NUMBER, DATE)), 0)})",
            lambda: f"{r.choice(('MIN', 'MAX'))}({x.of(r.choice((NUMBER, TEXT, DATE)), 0)})".replace(".e", ".s"),
            lambda: f"NTH_VALUE(q.id, {r.randint(1, 3)})",
            lambda: f"COUNT({x.of(r.choice(FAMILIES), 0)})",
        ]
        if "BETWEEN" not in over:  # MariaDB knows no frame of these
            calls += [
                lambda: r.choice(("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(3)")),
                lambda: f"{r.choice(('LAG', 'LEAD'))}({x.of(r.choice((NUMBER, TEXT, DATE)), 0)}, {r.randint(1, 3)})",
                lambda: f"{r.choice(('LAG', 'LEAD'))}({x.column(r.choice((NUMBER, TEXT, DATE)))})",
            ]
        items = ", ".join(f"{r.choice(calls)()} OVER {over} AS c{n}" for n in (1, 2))
        return f"SELECT q.id AS c0, {items} FROM t q"

    def chosen_by_window(self) -> str:
        """The first rows of each group."""
        r = self.random
        x = Expressions(r, [Source("q", T)])
        over = f"({r.choice(PARTITIONS)}ORDER BY {x.of(r.choice(FAMILIES), 1)}, q.id)"
        inner = f"SELECT q.id, q.i, ROW_NUMBER() OVER {over} AS n FROM t q"
        return f"SELECT id AS c0, i AS c1, n AS c2 FROM ({inner}) z WHERE n <= {r.randint(1, 3)}"

    def sorted(self, families: list[str]) -> str:
        """Rows in the order of expressions; a key ends it."""
        r = self.random
        name = r.choice(("t", "r"))
        x = self.expressions([Source("q", TABLES[name])], None, 1)
        items = ", ".join(f"{x.of(one, 1)} AS c{n}" for n, one in enumerate(families))
        keys = ", ".join(f"{self._key(x)}{r.choice(('', ' DESC'))}" for _ in range(r.randint(1, 2)))
        where = f" WHERE {x.condition(1)}" if r.random() < 0.4 else ""
        limit = r.choice(("", f" LIMIT {r.randint(1, 6)}", f" LIMIT {r.randint(0, 3)}, {r.randint(1, 6)}"))
        return f"SELECT q.id, {items} FROM {name} q{where} ORDER BY {keys}, q.id{limit}"

    def _key(self, x: Expressions) -> str:
        key = x.of(self.random.choice(FAMILIES), self.random.randint(0, 1))
        return (
            f"({key}) IS NULL" if re.fullmatch(r"[(]?-?[0-9.e]+[)]?", key) else key
        )  # a bare number would be a column

    def joined(self, families: list[str]) -> str:
        """Three tables, one of them grouped or matched with none."""
        r = self.random
        x = self.expressions([Source("q1", T), Source("q2", R)], None, 1)
        items = ", ".join(f"{x.of(one, 1)} AS c{n}" for n, one in enumerate(families))
        where = r.choice(("", "", f" WHERE {x.condition(1)}", " WHERE q2.id IS NULL", " WHERE q3.n > 1"))
        grouped = "(SELECT tid, COUNT(*) AS n, MAX(d) AS top FROM r GROUP BY tid)"
        kinds = ("JOIN", "LEFT JOIN")
        first = f"t q1 {r.choice(kinds)} r q2 ON q2.tid = q1.id"
        text = f"SELECT q1.id, q2.id AS x, q3.n, q3.top, {items} FROM {first} {r.choice(kinds)} {grouped} q3"
        return f"{text} ON q3.tid = q1.{r.choice(('id', 'i'))}{where} ORDER BY 1, 2"

    def derived(self, families: list[str]) -> str:
        """A query over a query."""
        alias = self._alias()
        inner = self.set_operation(families, 1)
        return f"SELECT * FROM ({inner}) {alias}"

    def common(self, families: list[str]) -> str:
        """WITH, now and then recursive."""
        r = self.random
        if r.random() < 0.3:
            top = r.randint(2, 6)
            x = Expressions(r, [])
            columns = ", ".join(f"{x.of(one, 0)} AS c{n}" for n, one in enumerate(families[:-1]))
            head = f"{columns}, " if columns else ""
            counted = f"SELECT 1 AS v UNION ALL SELECT v + 1 FROM n WHERE v < {top}"
            return f"WITH RECURSIVE n AS ({counted}) SELECT {head}v AS z FROM n"
        alias = self._alias()
        names = ", ".join(f"c{n}" for n in range(len(families)))
        return f"WITH {alias} AS ({self.set_operation(families, 1)}) SELECT {names} FROM {alias}"
