"""The statements whose whole effect is clear from their text alone, and what they are.

Two use this: accounts that are limited to their queues may run nothing else, and a session that has run nothing else
leaves no state on its connection to the database. `read` is strict (see `reader`) and never guesses: None means "some
other statement", and is the result for everything unknown. It reads no structure beyond what the result needs; the
database does, so a text that passes here may still be a syntax error there, but never another statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.model.attempts import SEPARATOR
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import ATTEMPTS_COLUMN, ERROR_COLUMNS, SYSTEM_COLUMNS
from proxy.rights.kinds import (
    Act,
    LimitedStatement,
    QueueStatement,
    SensitiveOutput,
    SessionQuery,
    SessionSettings,
    Setting,
    Step,
    TransactionStep,
    Use,
)
from rewriter.text.literals import hex_literal
from rewriter.text.strict_reader import StrictReader, Unreadable
from rewriter.text.tokens import Name, word_set

_UNITS = word_set("MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR")
_CLOCKS = word_set(
    "CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP UTC_TIMESTAMP UTC_DATE UTC_TIME"
)
_CONSTANTS = word_set("NULL TRUE FALSE DEFAULT INTERVAL DIV MOD") | _UNITS | _CLOCKS
# The one column that our INSERTs use: of the row that is being inserted, so it reveals nothing of others.
_INSERTED = _CONSTANTS | word_set("TIME_SCHEDULED")
OPERATORS = word_set("AND OR XOR NOT IN IS LIKE ESCAPE BETWEEN UNKNOWN") | _CONSTANTS
FUNCTIONS = _CLOCKS | word_set(
    "NOW SYSDATE CURDATE CURTIME UNIX_TIMESTAMP FROM_UNIXTIME TIMESTAMPDIFF TIMESTAMPADD DATE_ADD DATE_SUB DATE "
    "LOCATE FIND_IN_SET REPLACE SUBSTRING SUBSTRING_INDEX "
    "UUID ABS ROUND FLOOR CEIL CEILING MOD GREATEST LEAST COALESCE IFNULL NULLIF IF HEX UNHEX LOWER UPPER CONCAT TRIM "
    "LENGTH CHAR_LENGTH CRC32 JSON_OBJECT JSON_ARRAY JSON_EXTRACT JSON_UNQUOTE JSON_VALUE RAND MD5 SHA1 SHA2"
)
ACCOUNT_FUNCTIONS = word_set("USER CURRENT_USER SESSION_USER SYSTEM_USER")
"""Those that return the database account of the connection."""
_SESSION_FUNCTIONS = ACCOUNT_FUNCTIONS | word_set(
    "DATABASE SCHEMA VERSION CONNECTION_ID LAST_INSERT_ID ROW_COUNT FOUND_ROWS"
)
_ACCOUNT_WORDS = word_set("CURRENT_USER SESSION_USER CURRENT_ROLE")  # functions that need no parentheses
# Words that begin or join queries and clauses, and those; never a column or an alias unless quoted, whatever the table
# has.
_RESERVED = _ACCOUNT_WORDS | word_set(
    "SELECT TABLE VALUES VALUE WITH FROM INTO UNION EXCEPT INTERSECT MINUS EXISTS CALL PROCEDURE RETURNING SET WHERE "
    "USING JOIN ON HAVING GROUP FOR LOCK WINDOW OUTFILE DUMPFILE ANY SOME ALL CASE ROW NEXT PREVIOUS COLLATE MATCH OVER"
)
# What receivers recorded for a message may be as secret as its body.
_FAILURE_COLUMNS = frozenset((*ERROR_COLUMNS, ATTEMPTS_COLUMN))
_LITERAL = rb"(?:_utf8mb4 X'[0-9a-f]*'|'[^'\\]*'|\?)"
_SEPARATOR = re.escape(hex_literal(SEPARATOR).encode())
_OBJECTS = re.escape(b"SUBSTRING(failed_attempts, 2, CHAR_LENGTH(failed_attempts) - 2)")
_LAST = re.escape(b"IF(SUBSTRING(failed_attempts, 1, 2) = '[{', CONCAT(SUBSTRING_INDEX(") + _OBJECTS
_RECORDED = {
    "first_error": re.compile(rb"COALESCE\(first_error, " + _LITERAL + rb"\)", re.IGNORECASE),
    ATTEMPTS_COLUMN: re.compile(
        rb"CONCAT\('\[', (?:" + _LAST + rb", " + _SEPARATOR + rb", -\d+\), " + _SEPARATOR + rb"\), ''\), )?"
        rb"'{\"attempt\": ', epoch, ', \"at\": \"', UTC_TIMESTAMP\(6\)(?:, " + _LITERAL + rb"){2,3}\)"
    ),
}
"""What NACK and REJECT are made into: a column's own value is stored again, and nothing depends on it. Any other use
reveals it, by an error that quotes it or by the number of changed rows."""
# What the verbs set (rewriter.plans.nack_release_renew): an account that may settle may nack, release and reject.
_SETTLING_COLUMNS = frozenset(("time_acked", "time_next", "state", "epoch", TOKEN_COLUMN)) | _FAILURE_COLUMNS
# Columns that reveal only the delivery state of a message.
_STATE_COLUMNS = frozenset(SYSTEM_COLUMNS) - _FAILURE_COLUMNS
_LEVELS = (("READ", "UNCOMMITTED"), ("READ", "COMMITTED"), ("REPEATABLE", "READ"), ("SERIALIZABLE",))
# Behind SET these are statements of their own, not variables.
_NO_VARIABLES = word_set("PASSWORD ROLE DEFAULT RESOURCE STATEMENT GLOBAL PERSIST PERSIST_ONLY")


def read(sql: bytes, *, backslash_escapes: bool = True) -> LimitedStatement | None:
    """What one statement is; None for any other than those above."""
    reader = StrictReader(sql, backslash_escapes=backslash_escapes)
    handler = _HANDLERS.get(reader.word)
    if handler is None:
        return None
    try:
        statement = handler(reader)
    except Unreadable:
        return None
    return statement if statement is not None and reader.ended else None


# --- queues


def _insert(reader: StrictReader) -> LimitedStatement | None:
    reader.take("INSERT")
    while reader.accept_any("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE"):
        pass
    reader.accept("INTO")
    name, foreign = take_table(reader), set[str]()
    if reader.accept("SET"):
        _take_assignments(reader, _INSERTED, None, foreign)
    else:
        if reader.accept_symbol(b"(") and not reader.accept_symbol(b")"):
            _take_names(reader, foreign)
            reader.take_symbol(b")")
        if not reader.accept_any("VALUES", "VALUE"):
            return None
        _take_rows(reader)
    if reader.accept("RETURNING") and not reader.accept_symbol(b"*"):
        _take_names(reader, foreign)
    return QueueStatement(Act.ENQUEUE, name, frozenset(foreign))


def take_name(reader: StrictReader) -> str:
    """An identifier; without quotes it must not be a word of the language's own."""
    if reader.word in _RESERVED:
        raise Unreadable
    return reader.take_name()


def take_table(reader: StrictReader) -> Name:
    """The name of a table, perhaps with its database before it."""
    first = take_name(reader)
    return Name(first, take_name(reader)) if reader.accept_symbol(b".") else Name(None, first)


def _take_names(reader: StrictReader, foreign: set[str]) -> None:
    while True:
        _add_foreign(take_name(reader), foreign)
        if not reader.accept_symbol(b","):
            return


def _add_foreign(column: str, foreign: set[str]) -> None:
    """Servers differ in which other letters are the same as those of `id`: a name with such must be a column's own."""
    if not column.isascii():
        foreign.add(column.lower())


def _take_rows(reader: StrictReader) -> None:
    """Rows of literals, `?` and harmless functions."""
    some = False
    while reader.skip_values() or reader.accept_function(FUNCTIONS) or reader.accept_one(_INSERTED):
        some = True
    if not some:
        raise Unreadable


def _take_assignments(
    reader: StrictReader, words: frozenset[str], only: frozenset[str] | None, foreign: set[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """`column = value, ...`; the columns that the values use, and those of them whose values that reveals. `only`: if
    set, only these may be assigned. `foreign`: gets those that are assigned and not written in ASCII."""
    used, revealed = set[str](), set[str]()
    while True:
        column = take_name(reader)
        _add_foreign(column, foreign)
        column = column.lower()
        if only is not None and column not in only:
            raise Unreadable
        reader.take_symbol(b"=")
        start = reader.place
        values = _take_value(reader, words, columns=only is not None)
        used |= values
        recorded = _RECORDED.get(column)
        again = recorded is not None and recorded.fullmatch(reader.sql[start : reader.place].strip())
        revealed |= values - {column} if again else values
        if not reader.accept_symbol(b","):
            return frozenset(used), frozenset(revealed)


def _take_value(reader: StrictReader, words: frozenset[str], *, columns: bool) -> set[str]:
    """One expression, up to a comma or a word that is none of its own."""
    used: set[str] = set()
    depth, some = 0, False
    while True:
        if reader.accept_symbol(b"("):
            depth += 1
        elif depth and reader.accept_symbol(b")"):
            depth -= 1
        elif reader.accept_function(FUNCTIONS):
            depth += 1
        elif not (
            (depth and (reader.accept_symbol(b",") or reader.accept_comparison()))
            or reader.accept_scalar()
            or reader.accept_one(words)
            or (columns and _accept_column(reader, used))
        ):
            break
        some = True
    if depth or not some:
        raise Unreadable
    return used


def _accept_column(reader: StrictReader, used: set[str]) -> bool:
    word = reader.word
    if word in CLAUSES or reader.called:
        return False
    try:
        used.add(take_name(reader).lower())
    except Unreadable:
        return False
    return True


CLAUSES = word_set("WHERE ORDER LIMIT BY ASC DESC")


def _update(reader: StrictReader) -> LimitedStatement | None:
    reader.take("UPDATE")
    while reader.accept_any("LOW_PRIORITY", "IGNORE"):
        pass
    name = take_table(reader)
    if reader.word == "FORCE":
        _take_by_key(reader)
    reader.take("SET")
    used, revealed = _take_assignments(reader, _CONSTANTS, _SETTLING_COLUMNS, set())
    return _settles(name, (clauses := _take_clauses(reader, name)) | used, clauses | revealed)


def _settles(name: Name, used: frozenset[str], revealed: frozenset[str]) -> QueueStatement:
    return QueueStatement(Act.SETTLE, name, used, revealed - _STATE_COLUMNS)


def _delete(reader: StrictReader) -> LimitedStatement | None:
    reader.take("DELETE")
    while reader.accept_any("LOW_PRIORITY", "QUICK", "IGNORE"):
        pass
    if not reader.accept("FROM"):
        return _delete_by_key(reader)
    name = take_table(reader)
    return _settles(name, used := _take_clauses(reader, name), used)


def _delete_by_key(reader: StrictReader) -> LimitedStatement | None:
    """DELETE t FROM t FORCE INDEX (PRIMARY) WHERE condition: what an ACK by ids in a consumer group is made into."""
    name = take_table(reader)
    reader.take("FROM")
    if take_table(reader) != name:
        raise Unreadable
    _take_by_key(reader)
    used = set[str]()
    if not reader.accept("WHERE") or not _skip_condition(reader, name, used):
        raise Unreadable
    return _settles(name, frozenset(used), frozenset(used))


def _take_by_key(reader: StrictReader) -> None:
    """FORCE INDEX (PRIMARY), as an ACK by ids has it."""
    for word in ("FORCE", "INDEX"):
        reader.take(word)
    if not (reader.accept_symbol(b"(") and reader.accept("PRIMARY") and reader.accept_symbol(b")")):
        raise Unreadable


def _take_clauses(reader: StrictReader, name: Name) -> frozenset[str]:
    """WHERE, ORDER BY and LIMIT; the columns they use."""
    used: set[str] = set()
    if reader.accept("WHERE") and not _skip_condition(reader, name, used):
        raise Unreadable
    take_order(reader, name, used)
    return frozenset(used)


def take_order(reader: StrictReader, name: Name, used: set[str]) -> None:
    """ORDER BY columns, and LIMIT; each may be missing."""
    if reader.accept("ORDER", "BY"):
        while True:
            take_column(reader, name, used)
            reader.accept_any("ASC", "DESC")
            if not reader.accept_symbol(b","):
                break
    if reader.accept("LIMIT") and not reader.skip_values():
        raise Unreadable


def _skip_condition(reader: StrictReader, name: Name, used: set[str]) -> bool:
    some = False
    while True:
        if reader.skip_terms() or reader.accept_function(FUNCTIONS) or reader.accept_one(OPERATORS):
            some = True
        elif reader.word in CLAUSES or reader.ended:
            return some
        else:
            take_column(reader, name, used)
            some = True


def take_column(reader: StrictReader, name: Name, used: set[str]) -> None:
    """A column, perhaps with its table before it."""
    if reader.called:
        raise Unreadable
    first = take_name(reader)
    if reader.accept_symbol(b"."):
        if first != name.table or reader.called:
            raise Unreadable
        first = take_name(reader)
    used.add(first.lower())


# --- the session


def _set(reader: StrictReader) -> LimitedStatement | None:
    reader.take("SET")
    scope = reader.accept_any("SESSION", "LOCAL")
    if reader.accept("TRANSACTION"):
        _take_characteristics(reader)
        return SessionSettings(transaction=True) if scope else TransactionStep(Step.NEXT)
    settings = [_take_setting(reader)]
    while reader.accept_symbol(b","):
        reader.accept_any("SESSION", "LOCAL")
        settings.append(_take_setting(reader))
    return SessionSettings(tuple(settings))


def _take_characteristics(reader: StrictReader) -> None:
    while True:
        if reader.accept("ISOLATION", "LEVEL"):
            if not any(reader.accept(*level) for level in _LEVELS):
                raise Unreadable
        elif not (reader.accept("READ", "ONLY") or reader.accept("READ", "WRITE")):
            raise Unreadable
        if not reader.accept_symbol(b","):
            return


def _take_setting(reader: StrictReader) -> Setting:
    if reader.accept("NAMES"):
        value, default = _take_charset(reader)
        collation = _take_charset(reader)[0] if reader.accept("COLLATE") else None
        return Setting("names", value, default, collation)
    if reader.accept("CHARSET") or reader.accept("CHARACTER", "SET"):
        return Setting("character set", *_take_charset(reader))
    variable = _take_variable(reader)
    if not reader.accept_symbol(b":="):
        reader.take_symbol(b"=")
    start = reader.place
    plain = _plain_value(reader, variable)
    if plain is not None and (reader.ended or reader.at_symbol(b",")):
        return plain
    reader.go_back(start)
    return Setting(variable, None, computed=True, reads=_take_computed(reader))


def _take_charset(reader: StrictReader) -> tuple[str, bool]:
    if reader.accept("DEFAULT"):
        return "default", True
    value = reader.accept_string()
    return (take_name(reader) if value is None else value).lower(), False


def _take_variable(reader: StrictReader) -> str:
    scoped = reader.accept_variable()
    if scoped is None:
        if reader.word in _NO_VARIABLES:
            raise Unreadable
        return take_name(reader).lower()
    if scoped[0] == "global":
        raise Unreadable
    return scoped[1]


def _plain_value(reader: StrictReader, variable: str) -> Setting | None:
    """A constant, or one put after what the variable holds."""
    if reader.accept_function(frozenset(("CONCAT",))):
        itself = reader.accept_variable() in (("", variable), ("session", variable)) and reader.accept_symbol(b",")
        value = reader.accept_string() if itself else None
        return Setting(variable, value, appended=True) if value is not None and reader.accept_symbol(b")") else None
    value = reader.accept_string()
    if value is None and (value := reader.accept_number()) is not None and not value.isdigit():
        return None  # it is not what it is spelled as: x'31' is a string
    if value is not None:
        return Setting(variable, value)
    if reader.accept("NULL"):
        return Setting(variable, None)
    if reader.accept("DEFAULT"):
        return Setting(variable, "default", default=True)
    if not reader.word or reader.word in _ACCOUNT_WORDS or reader.called:
        return None
    return Setting(variable, reader.take_name().lower())  # ON is one


def _take_computed(reader: StrictReader) -> frozenset[str]:
    """An expression, up to a comma of the SET itself; the variables it reads."""
    depth, some = 0, False
    variables: set[str] = set()
    while True:
        if (variable := reader.accept_variable()) is not None:
            variables.add(variable[1])
        elif reader.accept_symbol(b"(") or reader.accept_function(FUNCTIONS):
            depth += 1
        elif depth and reader.accept_symbol(b")"):
            depth -= 1
        elif not (
            (depth and reader.accept_symbol(b","))
            or reader.accept_scalar()
            or reader.accept_comparison()
            or reader.accept_one(OPERATORS)
        ):
            break
        some = True
    if depth or not some:
        raise Unreadable
    return frozenset(variables)


def _select(reader: StrictReader) -> LimitedStatement | None:
    reader.take("SELECT")
    variables: set[str] = set()
    connection_id = account = some = False
    while not reader.ended:
        if (variable := reader.accept_variable()) is not None:
            variables.add(variable[1])
        elif name := reader.accept_function(FUNCTIONS | _SESSION_FUNCTIONS):
            connection_id |= name == "CONNECTION_ID"
            account |= name in ACCOUNT_FUNCTIONS
            if name in _SESSION_FUNCTIONS:
                reader.take_symbol(b")")  # LAST_INSERT_ID(n) would set it
        elif not (reader.skip_terms() or reader.accept_one(OPERATORS)):
            _take_alias(reader)
        some = True
    return SessionQuery(frozenset(variables), connection_id, account) if some else None


def _take_alias(reader: StrictReader) -> None:
    """`AS name`, a bare name, or LIMIT: without FROM no name can be a column."""
    if reader.called:
        raise Unreadable
    take_name(reader)


def _show(reader: StrictReader) -> LimitedStatement | None:
    reader.take("SHOW")
    if reader.accept("COUNT"):
        reader.take_symbol(b"(")
        reader.take_symbol(b"*")
        reader.take_symbol(b")")
        return SessionQuery() if reader.accept_any("WARNINGS", "ERRORS") else None
    if reader.accept_any("WARNINGS", "ERRORS"):
        return (
            SessionQuery(sensitive_output=SensitiveOutput.WARNINGS)
            if not reader.accept("LIMIT") or reader.skip_values()
            else None
        )
    if reader.accept("ENGINES") or reader.accept("STORAGE", "ENGINES"):
        return SessionQuery()
    sensitive_output = None
    if not (reader.accept("COLLATION") or reader.accept("CHARSET") or reader.accept("CHARACTER", "SET")):
        reader.accept_any("GLOBAL", "SESSION", "LOCAL")
        reader.take("VARIABLES")
        sensitive_output = SensitiveOutput.VARIABLES
    if reader.accept_any("LIKE", "WHERE") and not _skip_condition(reader, Name(None, ""), set()):
        return None
    return SessionQuery(sensitive_output=sensitive_output)


def _use(reader: StrictReader) -> LimitedStatement | None:
    reader.take("USE")
    return Use(take_name(reader))


# --- transactions


def _begin(reader: StrictReader) -> LimitedStatement | None:
    if reader.accept("START", "TRANSACTION"):
        while reader.accept_any("WITH", "CONSISTENT", "SNAPSHOT", "READ", "ONLY", "WRITE") or reader.accept_symbol(
            b","
        ):
            pass
    elif reader.accept("BEGIN"):
        reader.accept("WORK")
    return TransactionStep(Step.BEGIN)


def _end(reader: StrictReader) -> LimitedStatement | None:
    """COMMIT and ROLLBACK; not with RELEASE, which ends the connection."""
    step = Step[reader.accept_any("COMMIT", "ROLLBACK")]
    reader.accept("WORK")
    plain = True
    if step is Step.ROLLBACK and reader.accept("TO"):
        reader.accept("SAVEPOINT")
        take_name(reader)
        return TransactionStep(Step.SAVEPOINT)
    if reader.accept("AND"):
        plain = bool(reader.accept("NO"))
        reader.take("CHAIN")
    if reader.accept("NO"):
        reader.take("RELEASE")
    return TransactionStep(step, plain)


def _savepoint(reader: StrictReader) -> LimitedStatement | None:
    reader.accept("RELEASE")
    reader.take("SAVEPOINT")
    take_name(reader)
    return TransactionStep(Step.SAVEPOINT)


_HANDLERS: dict[str, Callable[[StrictReader], LimitedStatement | None]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "SET": _set,
    "SELECT": _select,
    "SHOW": _show,
    "USE": _use,
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _end,
    "ROLLBACK": _end,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
}
