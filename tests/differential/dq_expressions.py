"""Expressions for generated statements, by the family that they are of. All chance comes from the `Random` at hand.

What servers are free to answer as they like is not generated: floating-point results that depend on the order of
additions or on a library, trailing spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from dq_productions import ACROSS, CHOICES, COMPARISONS, DATES, MOMENTS, NUMBERS, TESTS, TEXTS
from dq_schema import DATE, MOMENT, NUMBER, TEXT, TIME, WORDS, Column, clock, day

FAMILIES = (NUMBER, NUMBER, NUMBER, TEXT, TEXT, DATE, MOMENT)
NULLS = {NUMBER: "CAST(NULL AS SIGNED)", TEXT: "NULL", DATE: "CAST(NULL AS DATE)", MOMENT: "CAST(NULL AS DATETIME)"}
PRODUCTIONS = {NUMBER: NUMBERS, TEXT: TEXTS, DATE: DATES, MOMENT: MOMENTS}
QUANTIFIED = COMPARISONS[:-1]  # each of them may stand before one of these
QUANTIFIERS = ("ANY", "ALL", "SOME")
_HOLE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Source:
    """A table in FROM under its alias."""

    alias: str
    columns: tuple[Column, ...]


@dataclass(slots=True)
class Expressions:
    """Makes expressions over the columns of `sources`. `query` makes a subquery of one column of a family."""

    random: Random
    sources: Sequence[Source]
    query: Callable[[str, bool], str] | None = None
    quotients: bool = False  # with all the digits that they have: not where MariaDB would make them doubles
    changes: bool = False  # for a change: a text that is no number would be a warning there

    def of(self, family: str, depth: int) -> str:
        """An expression of that family."""
        if family == TIME:
            return self.span()
        if depth > 0 and self.random.random() < 0.12:
            return self.fill(self.random.choice(CHOICES), depth, family)
        if depth <= 0:
            return self._leaf(family)
        return self.fill(self.random.choice(PRODUCTIONS[family]), depth, family)

    def condition(self, depth: int) -> str:
        """Something true, false or unknown."""
        r = self.random
        if depth > 0 and r.random() < 0.35:
            return f"({self.condition(depth - 1)} {r.choice(('AND', 'OR', 'XOR'))} {self.condition(depth - 1)})"
        return self.fill(r.choice(TESTS), depth, r.choice(FAMILIES))

    def fill(self, production: str, depth: int, family: str) -> str:
        """A production with its braces filled; `family` is what `{one}` stands for."""
        return _HOLE.sub(lambda hole: self._filled(hole[1], depth, family), production)

    def _filled(self, what: str, depth: int, family: str) -> str:
        r = self.random
        if "|" in what:
            return r.choice(what.split("|"))
        if ".." in what:
            low, high = what.split("..")
            return str(r.randint(int(low), int(high)))
        name, _, below = what.partition(":")
        level = 0 if below else depth - 1
        if name == "one":
            return self.of(family, level)
        if name == "part":  # MariaDB makes a DECIMAL of two parts that has a digit less than a number needs
            return f"({self.of(family, level)} + 0)" if family == NUMBER else self.of(family, level)
        if name in PRODUCTIONS:
            return self.of(name, level)
        if name in ("exact", "whole", "condition"):
            make: Callable[[int], str] = getattr(self, name)
            return make(level)
        return self._special(name, depth, family)

    def _special(self, name: str, depth: int, family: str) -> str:
        r = self.random
        match name:
            case "other":
                return self.of(NUMBER, depth - 1 if r.random() < 0.4 else 0)
            case "quotient":
                text = f"({self.exact(depth - 1)} / {self.exact(0)})"
                return text if self.quotients else f"ROUND({text}, {r.randint(0, 5)})"
            case "measure":
                return self.column(NUMBER) or "2.5e0"
            case "numeral":
                return self.numeral()
            case "unsigned":
                return self.column("unsigned") or "5"
            case "span":
                return self.span()
            case "comparison":
                return r.choice(COMPARISONS)
            case "'day'":
                return f"'{day(r)}'"
            case "'day clock'":
                return f"'{day(r)} {clock(r)}'"
            case "compact day":
                return day(r).replace("-", "")
            case "document":
                word, one, other = r.choice(WORDS), r.randint(0, 9), r.randint(0, 3)
                return f'\'{{"l": [1, {one}], "n": {other}, "s": "{word}", "x": null}}\''
            case "number query" | "text query":
                return self._subquery(name.partition(" ")[0])
            case _:
                return self._test(name, depth, family)

    def _test(self, name: str, depth: int, family: str) -> str:
        match name:
            case "across" if self.changes:
                return self.fill("{date:0} {comparison} {moment:0}", 0, family)
            case "across":
                return self.fill(self.random.choice(ACROSS), 1, family)
            case "negated":
                return self._negated(self.condition(depth - 1))
            case "row":
                return self._row()
            case "with query":
                return self._with_query(family, self.of(family, depth - 1))
        raise AssertionError(f"nothing is called {name!r}")

    def column(self, family: str) -> str | None:
        """A column of that family, if there is one."""
        found = [(one.alias, c.name) for one in self.sources for c in one.columns if c.family == family]
        return ".".join(self.random.choice(found)) if found else None

    def _leaf(self, family: str) -> str:
        r = self.random
        found = self.column(family) if r.random() < 0.7 else None
        if found is not None:
            return found
        return NULLS[family] if r.random() < 0.06 else self.literal(family)

    def literal(self, family: str) -> str:
        r = self.random
        match family:
            case "number":
                return self.numeral()
            case "text":
                return f"'{r.choice(WORDS)}'"
            case "date":
                return f"DATE '{day(r)}'"
            case _:
                return f"TIMESTAMP '{day(r)} {clock(r)}'"

    def numeral(self) -> str:
        r = self.random
        return r.choice(
            (
                lambda: str(r.randint(0, 12)),
                lambda: str(r.randint(-3, 300)),
                lambda: f"{r.randint(0, 99)}.{r.randint(0, 99):02}",
                lambda: f"{r.randint(0, 9)}.{r.choice((5, 25, 125, 1, 333))}",
                lambda: f"{r.randint(-9, 9) / 4}e0",
                lambda: f"{r.randint(10**14, 10**16)}.{r.randint(1, 999)}",
                lambda: str(r.randint(10**4, 10**5)),
            )
        )()

    def number(self, depth: int) -> str:
        return self.of(NUMBER, depth)

    def text(self, depth: int) -> str:
        return self.of(TEXT, depth)

    def span(self) -> str:
        """A TIME."""
        return self.column(TIME) or f"TIME '{clock(self.random)}'"

    def exact(self, depth: int) -> str:
        """A number that is not a floating-point one."""
        r = self.random
        if depth > 0 and r.random() < 0.6:
            return f"({self.exact(depth - 1)} {r.choice('+-*')} {self.exact(0)})"
        found = [(s.alias, c.name) for s in self.sources for c in s.columns if c.family == NUMBER and c.exact]
        if found and r.random() < 0.7:
            return ".".join(r.choice(found))
        return r.choice((str(r.randint(-9, 30)), f"{r.randint(0, 40)}.{r.randint(0, 99):02}", f"{r.randint(1, 9)}.5"))

    def whole(self, depth: int) -> str:
        r = self.random
        if depth > 0 and r.random() < 0.5:
            return f"({self.whole(depth - 1)} {r.choice('+*')} {self.whole(0)})"
        found = [(s.alias, c.name) for s in self.sources for c in s.columns if c.name in ("id", "i", "tid", "v")]
        return ".".join(r.choice(found)) if found and r.random() < 0.7 else str(r.randint(0, 20))

    def _row(self) -> str:
        """Rows compared, none of their values NULL: those MariaDB takes for rows that cannot match."""
        r = self.random
        if len(self.sources) != 1:
            return f"{self.whole(0)} <> {r.randint(0, 9)}"
        return f"({self.sources[0].alias}.id, '{r.choice(WORDS)}') = ({r.randint(0, 9)}, '{r.choice(WORDS)}')"

    def _with_query(self, family: str, one: str) -> str:
        if self.query is None:
            return f"{one} IS NULL"
        if "SELECT" in one:  # MariaDB 10.11 carries out a correlated query on the right of it for the first row alone
            one = self._leaf(family)
        many = self.query(family, False)
        return self.random.choice(
            (
                f"{one} IN ({many})",
                f"{one} NOT IN ({many})",
                f"EXISTS ({many})",
                f"NOT EXISTS ({many})",
                self._quantified(family, one, many),
                self._quantified(family, one, many),
                self._quantified(family, one, many),
                f"{one} < ({self.query(family, True)})",
            )
        )

    def _quantified(self, family: str, one: str, many: str) -> str:
        """A value compared with each row.

        Where it cannot be NULL, MariaDB 10.11 takes the answer for never NULL. Of texts of two collations, it finds the
        extremes by the one that does not apply.
        """
        r = self.random
        test = f"NULLIF({one}, {self.of(family, 0)}) {r.choice(QUANTIFIED)} {r.choice(QUANTIFIERS)} ({many})"
        test = test.replace(".c", ".s") if family == TEXT else test
        return f"NOT ({test})" if r.random() < 0.2 else test

    def _negated(self, condition: str) -> str:
        """NOT. Of two of them around ANY or ALL, MariaDB 10.11 forgets the comparison: no row is found then."""
        if "NOT (" in condition and any(f" {word} (" in condition for word in QUANTIFIERS):
            return condition
        return f"NOT ({condition})"

    def _subquery(self, family: str) -> str:
        return self.of(family, 0) if self.query is None else f"({self.query(family, True)})"
