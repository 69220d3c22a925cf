"""SELECT from one table alone: what an account that may read a topic looks up there, and the replay of a stream.

As strict as `statements.read`, which reads no query at all: such a SELECT has columns, COUNT(*), MIN and MAX, a
condition without subqueries, ORDER BY and LIMIT. A replay (rewriter.plans.topics) also has one subquery, of one form,
on the same table. The caller has to compare the names of its columns with the table's.
"""

from __future__ import annotations

from engine.model.queue import SEQUENCE_COLUMN
from proxy.rights.kinds import Act, QueueStatement
from proxy.rights.statements import CLAUSES, FUNCTIONS, OPERATORS, take_column, take_name, take_order, take_table
from rewriter.text.strict_reader import StrictReader, Unreadable
from rewriter.text.tokens import Name, word_set

_COUNTS = word_set("COUNT MIN MAX")
_MIN = word_set("MIN")
_CAST = word_set("CAST")
_OFFSETS = ("ID", SEQUENCE_COLUMN.upper())
_UNIX = word_set("UNIX_TIMESTAMP")
_IN_CONDITIONS = FUNCTIONS | _CAST


def read_lookup(sql: bytes) -> QueueStatement | None:
    """A SELECT of this form; None for anything else."""
    reader = StrictReader(sql)
    try:
        statement = _select(reader)
    except Unreadable:
        return None
    return statement if reader.ended else None


def _select(reader: StrictReader) -> QueueStatement:
    used: set[str] = set()
    reader.take("SELECT")
    _take_item(reader, used)
    while reader.accept_symbol(b","):
        _take_item(reader, used)
    reader.take("FROM")
    name = take_table(reader)
    if reader.accept("WHERE"):
        _take_condition(reader, name, used)
    take_order(reader, name, used)
    if reader.accept("OFFSET") and reader.accept_number() is None:
        raise Unreadable
    return QueueStatement(Act.READ, name, frozenset(used))


def _take_item(reader: StrictReader, used: set[str]) -> None:
    """`*`, a column, COUNT(*), or MIN, MAX or COUNT of a column."""
    if reader.accept_symbol(b"*"):
        return
    if reader.accept_function(_COUNTS):
        if not reader.accept_symbol(b"*"):
            used.add(take_name(reader).lower())
        reader.take_symbol(b")")
        return
    if reader.called:
        raise Unreadable
    used.add(take_name(reader).lower())


def _take_condition(reader: StrictReader, name: Name, used: set[str]) -> None:
    """A condition up to the next clause."""
    some = False
    while reader.word not in CLAUSES and not reader.ended:
        if reader.accept("SELECT"):
            used |= {_take_first_since(reader, name), "time_created"}
        elif not (
            reader.skip_terms()
            or reader.accept_function(_IN_CONDITIONS)
            or reader.accept("AS", "SIGNED")
            or reader.accept_one(OPERATORS)
        ):
            take_column(reader, name, used)
        some = True
    if not some:
        raise Unreadable


def _take_first_since(reader: StrictReader, name: Name) -> str:
    """MIN(id) FROM (SELECT id FROM t WHERE time_created >= time ORDER BY time_created LIMIT n) AS qg_since), exactly:
    anything else there could be another table. Or with the number in place of the id; returns which one it is."""
    offset = reader.accept_any(*_OFFSETS) if reader.accept_function(_MIN) else ""
    if not (offset and reader.accept_symbol(b")")):
        raise Unreadable
    reader.take("FROM")
    reader.take_symbol(b"(")
    reader.take("SELECT", offset, "FROM")
    if take_table(reader) != name:
        raise Unreadable
    reader.take("WHERE", "TIME_CREATED")
    reader.take_symbol(b">=")
    _take_time(reader)
    reader.take("ORDER", "BY", "TIME_CREATED", "LIMIT")
    if reader.accept_number() is None:
        raise Unreadable
    reader.take_symbol(b")")
    reader.take("AS", "QG_SINCE")
    reader.take_symbol(b")")
    return offset.lower()


def _take_time(reader: StrictReader) -> None:
    """CAST(UNIX_TIMESTAMP('time') * 1000000000 AS SIGNED)."""
    if not (reader.accept_function(_CAST) and reader.accept_function(_UNIX) and reader.accept_scalar()):
        raise Unreadable
    reader.take_symbol(b")")
    reader.take_symbol(b"*")
    if reader.accept_number() is None:
        raise Unreadable
    reader.take("AS", "SIGNED")
    reader.take_symbol(b")")
