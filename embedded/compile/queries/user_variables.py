"""User variables that a query assigns in its select list, `@x := value`, evaluated without any state in SQLite.

MySQL evaluates the items of a row from left to right, so a later item that reads the variable gets the value that an
earlier one assigned: here the later item becomes an expression of that value. The session stores the value of the last
row, which the query returns in addition to its columns. What depends on an earlier row, on another clause, or on a
branch that may leave the variable as it was, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from embedded.compile.errors import unsupported
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import slot_notes, slot_of
from rewriter.errors import UnsupportedSql

_MAX_NODES = 20_000  # of the select list with values in the place of variables: each may hold the one before it twice
_REFUSED_PARTS = ("group", "having", "distinct", "windows")
_ONCE = keywords("RAND UUID UUID_SHORT SLEEP RANDOM_BYTES LAST_INSERT_ID GET_LOCK RELEASE_LOCK RELEASE_ALL_LOCKS")
_LAZY = keywords("IFNULL COALESCE NULLIF ELT NVL")  # calls that may leave an argument aside
_Values = dict[str, exp.Expression]


@dataclass(frozen=True, slots=True)
class Assigned:
    """The names that a query assigns. Their values are the last columns of its select list, in this order."""

    names: tuple[str, ...] = ()


def resolve(tree: exp.Expression, shape: str) -> Assigned:
    """Take the assignments out of a query's tree, in place.

    Raises:
        UnsupportedSql: it cannot be evaluated as MySQL does.
    """
    if tree.find(exp.PropertyEQ) is None:
        return Assigned()
    resolver = _Resolver(slot_notes(shape))
    return resolver.resolve(tree)


def _refusal(what: str) -> UnsupportedSql:
    return unsupported(f"assigning a variable inside a query {what}", "use SET, or an expression")


@dataclass(eq=False, slots=True)
class _Resolver:
    notes: Sequence[str]
    assigned: frozenset[str] = field(default=frozenset())

    def resolve(self, tree: exp.Expression) -> Assigned:
        if not isinstance(tree, exp.Select):
            raise _refusal("other than a plain SELECT")
        if any(tree.args.get(part) for part in _REFUSED_PARTS):
            raise _refusal("with DISTINCT, GROUP BY, HAVING or WINDOW")
        assignments = list(tree.find_all(exp.PropertyEQ))
        if any(one.parent_select is not tree or one.find_ancestor(exp.Subquery) is not None for one in assignments):
            raise _refusal("in a subquery")
        self.assigned = frozenset(self._target(one) for one in assignments)
        self._check_rest(tree)
        values: _Values = {}
        items: list[exp.Expr] = []
        for item in tree.expressions:
            items.append(self._strip(item, values))
            if sum(1 for _ in items[-1].walk()) > _MAX_NODES:
                raise _refusal("that is nested this deeply")
        names = tuple(sorted(values))
        if set(names) != self.assigned:
            raise _refusal("in only one branch")
        for name in names:
            items.append(exp.alias_(self._read(name, values), f"qg__{name}", quoted=True))
        tree.set("expressions", items)
        return Assigned(names)

    def _check_rest(self, tree: exp.Select) -> None:
        """Neither assignments nor reads of assigned variables are outside the select list."""
        for key, part in tree.args.items():
            if key == "expressions":
                continue
            for node in part if isinstance(part, list) else [part]:
                if not isinstance(node, exp.Expression):
                    continue
                if self._touches(node):
                    raise _refusal("that uses it outside of the list of columns")

    def _target(self, node: exp.PropertyEQ) -> str:
        name = self._name(node.this)
        if name is None:
            raise unsupported("assigning variables inside a query", "use SET")
        return name

    def _name(self, node: exp.Expr) -> str | None:
        """The user variable of a marker."""
        slot = slot_of(node.name) if isinstance(node, exp.Literal) else None
        note = self.notes[slot] if slot is not None and slot < len(self.notes) else ""
        if not note.startswith("@@") or note.startswith("@@@"):
            return None
        return note[2:].strip("`'\"").lower()

    def _read(self, name: str, values: _Values) -> exp.Expression:
        value = values.get(name)
        if value is None:
            raise _refusal("that reads it from an earlier row")
        return exp.paren(value.copy(), copy=False)

    def _strip(self, node: exp.Expression, values: _Values) -> exp.Expression:
        """The expression without assignments and reads; `values` is what the variables are after it."""
        name = self._name(node)
        if name is not None and name in self.assigned:
            return self._read(name, values)
        if isinstance(node, exp.PropertyEQ):
            value = self._strip(node.expression, values)
            if any(_word(one) in _ONCE for one in value.walk()):
                raise _refusal("with a value that is another each time")
            values[self._target(node)] = value
            return exp.paren(value.copy(), copy=False)
        if not self._touches(node):
            return node
        branches = _branches(node)
        if branches is not None:
            return self._branched(node, branches, values)
        if isinstance(node, exp.Select | exp.Subquery):
            raise _refusal("and reading it in a subquery")
        if (isinstance(node, exp.Connector) or _word(node) in _LAZY) and node.find(exp.PropertyEQ):
            raise _refusal("in only one branch")
        return self._children(node, values)

    def _touches(self, node: exp.Expression) -> bool:
        return any(isinstance(one, exp.PropertyEQ) or self._name(one) in self.assigned for one in node.walk())

    def _children(self, node: exp.Expression, values: _Values) -> exp.Expression:
        copy = node.copy()
        for key, part in node.args.items():
            if isinstance(part, exp.Expression):
                copy.set(key, self._strip(part, values))
            elif isinstance(part, list):
                copy.set(key, [self._strip(one, values) if isinstance(one, exp.Expression) else one for one in part])
        return copy

    def _branched(self, node: exp.Expression, branches: _Branches, values: _Values) -> exp.Expression:
        """A CASE or IF: after it, a variable that every branch has assigned is the same CASE of these values."""
        if any(one.find(exp.PropertyEQ) for one in branches.conditions):
            raise _refusal("in a condition")
        subject = self._strip(branches.subject, values) if branches.subject is not None else None
        conditions = [self._strip(one, values) for one in branches.conditions]
        results, after = [], []
        for result in branches.results:
            branch = dict(values)
            results.append(self._strip(result, branch))
            after.append(branch)
        for name in self.assigned:
            branch_values = [branch.get(name) for branch in after]
            if all(one is values.get(name) for one in branch_values):
                continue
            if branches.open or any(one is None for one in branch_values):
                raise _refusal("in only one branch")
            values[name] = _case(subject, conditions, [one.copy() for one in branch_values if one is not None])
        if branches.open:
            results.append(exp.null())
        return _case(subject, conditions, results)


@dataclass(frozen=True, slots=True)
class _Branches:
    """A CASE or IF. The last result is what holds otherwise, unless that is left `open`."""

    subject: exp.Expression | None
    conditions: list[exp.Expression]
    results: list[exp.Expression]
    open: bool


def _branches(node: exp.Expression) -> _Branches | None:
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        conditions, results = [one.this for one in node.args["ifs"]], [one.args["true"] for one in node.args["ifs"]]
        return _Branches(node.args.get("this"), conditions, [*results, *([default] if default else [])], not default)
    if isinstance(node, exp.Anonymous) and _word(node) == "IF" and len(node.expressions) == 3:
        condition, *results = node.expressions
        return _Branches(None, [condition], results, False)
    return None


def _case(
    subject: exp.Expression | None, conditions: Sequence[exp.Expression], results: Sequence[exp.Expression]
) -> exp.Expression:
    pairs = zip(conditions, results, strict=False)
    ifs = [exp.If(this=condition.copy(), true=result) for condition, result in pairs]
    return exp.Case(this=subject.copy() if subject is not None else None, ifs=ifs, default=results[-1])


def _word(node: exp.Expr) -> str:
    """The name of a function that is called."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    return node.sql_name() if isinstance(node, exp.Func) else ""
