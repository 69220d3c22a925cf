"""Statements about the session rather than about data: transactions, SET, USE, PREPARE and similar ones, with a parser
of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded.compile.definitions.types import charset_collation, check_collation
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.text.literal_lifting import fill_slots
from embedded.compile.text.tokens import Tokens
from rewriter.text.literals import string_literal


@dataclass(frozen=True, slots=True)
class Begin:
    """START TRANSACTION."""

    read_only: bool = False
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """COMMIT or ROLLBACK; `chain` begins another at once."""

    commit: bool
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Savepoint:
    name: str


@dataclass(frozen=True, slots=True)
class RollbackTo:
    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint:
    name: str


@dataclass(frozen=True, slots=True)
class Use:
    database: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """One SET clause. `scope`: user, session, global or next (transaction). `text`: the expression."""

    scope: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SetVariables:
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class LockTables:
    write: bool


@dataclass(frozen=True, slots=True)
class UnlockTables:
    pass


@dataclass(frozen=True, slots=True)
class PrepareText:
    """PREPARE name FROM source; the source is an expression (a string or a user variable)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ExecuteText:
    name: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deallocate:
    name: str


@dataclass(frozen=True, slots=True)
class Evaluate:
    """DO expressions."""

    text: str


@dataclass(frozen=True, slots=True)
class Maintain:
    """ANALYZE, OPTIMIZE, CHECK or REPAIR TABLE."""

    operation: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoOperation:
    """Accepted, and true without doing anything."""


Command = (
    Begin
    | End
    | Savepoint
    | RollbackTo
    | ReleaseSavepoint
    | Use
    | SetVariables
    | LockTables
    | UnlockTables
    | PrepareText
    | ExecuteText
    | Deallocate
    | Evaluate
    | Maintain
    | NoOperation
)


def read_command(tokens: Tokens) -> Command:
    """The command that the statement is.

    Raises:
        SqlSyntaxError: no such statement.
        UnsupportedSql: a statement that this backend does not have.
    """
    word = tokens.peek().upper
    reader = _READERS.get(word)
    if reader is None:
        if word in _REFUSED:
            raise unsupported(f"{word} statements", _REFUSED[word])
        raise tokens.error()
    tokens.next()
    command = reader(tokens)
    tokens.finish()
    return command


_REFUSED = {
    "XA": "use a plain transaction",
    "HANDLER": "use SELECT",
    "LOAD": "use INSERT with many rows",
    "GRANT": "users are set in the configuration",
    "REVOKE": "users are set in the configuration",
    "CHANGE": "",
    "RESET": "",
    "PURGE": "",
    "BACKUP": "",
    "INSTALL": "",
    "UNINSTALL": "",
    "SIGNAL": "",
    "RESIGNAL": "",
    "CACHE": "",
    "CLONE": "",
    "IMPORT": "",
    "VALUES": "use SELECT ... UNION",
    "TABLE": "use SELECT * FROM",
    "SHUTDOWN": "stop the server process",
    "KILL": "",
}


def _begin(tokens: Tokens) -> Command:
    tokens.accept("WORK")
    return Begin()


def _start(tokens: Tokens) -> Command:
    if not tokens.accept("TRANSACTION"):
        raise unsupported("START of anything but TRANSACTION")
    read_only = snapshot = False
    while not tokens.at_end:
        if tokens.accept("WITH", "CONSISTENT", "SNAPSHOT"):
            snapshot = True
        elif tokens.accept("READ", "ONLY"):
            read_only = True
        else:
            tokens.expect("READ", "WRITE")
        tokens.accept(",")
    return Begin(read_only, snapshot)


def _commit(tokens: Tokens) -> Command:
    tokens.accept("WORK")
    return End(True, _chain(tokens))


def _chain(tokens: Tokens) -> bool:
    chain = False
    if tokens.accept("AND"):
        chain = not tokens.accept("NO")
        tokens.expect("CHAIN")
    if tokens.accept("RELEASE"):
        raise unsupported("COMMIT or ROLLBACK ... RELEASE", "close the connection")
    tokens.accept("NO", "RELEASE")
    return chain


def _rollback(tokens: Tokens) -> Command:
    tokens.accept("WORK")
    if tokens.accept("TO"):
        tokens.accept("SAVEPOINT")
        return RollbackTo(tokens.name())
    return End(False, _chain(tokens))


def _savepoint(tokens: Tokens) -> Command:
    return Savepoint(tokens.name())


def _release(tokens: Tokens) -> Command:
    tokens.expect("SAVEPOINT")
    return ReleaseSavepoint(tokens.name())


def _use(tokens: Tokens) -> Command:
    return Use(tokens.name())


def _set(tokens: Tokens) -> Command:
    if tokens.peek().upper in ("PASSWORD", "ROLE", "RESOURCE"):
        raise unsupported(f"SET {tokens.peek().upper}", "users are set in the configuration")
    assignments: list[Assignment] = []
    scope = "session"
    while True:
        scope, added = _assignment(tokens, scope)
        assignments += added
        if not tokens.accept(","):
            return SetVariables(tuple(assignments))


def _assignment(tokens: Tokens, scope: str) -> tuple[str, list[Assignment]]:
    """One clause; its scope word holds for the clauses after it, as in MySQL."""
    token = tokens.peek()
    if token.kind == "variable":
        tokens.next()
        return scope, [_variable(tokens, token.text)]
    keyword = tokens.accept_one("GLOBAL", "SESSION", "LOCAL", "PERSIST", "PERSIST_ONLY")
    if keyword:
        scope = {"GLOBAL": "global", "PERSIST": "global", "PERSIST_ONLY": "global"}.get(keyword, "session")
    if not keyword and (tokens.accept("NAMES") or tokens.accept("CHARSET") or tokens.accept("CHARACTER", "SET")):
        return scope, _names(tokens)
    if tokens.accept("TRANSACTION"):
        return scope, _transaction(tokens, scope if keyword else "next")
    name = tokens.name()
    if tokens.accept("."):
        raise unsupported("structured system variables")
    return scope, [Assignment(scope, name.lower(), _value(tokens))]


def _names(tokens: Tokens) -> list[Assignment]:
    """SET NAMES is four assignments; both names are words, as the checks see to, and need no quotes."""
    charset = "utf8mb4" if tokens.accept("DEFAULT") else tokens.name_or_string().lower()
    collation = charset_collation(charset)
    if tokens.accept("COLLATE"):
        collation = check_collation(tokens.name_or_string())
    names = ("character_set_client", "character_set_connection", "character_set_results")
    return [Assignment("session", name, charset) for name in names] + [
        Assignment("session", "collation_connection", collation)
    ]


def _variable(tokens: Tokens, text: str) -> Assignment:
    if not text.startswith("@@"):
        name = text[1:].strip("`")
        return Assignment("user", name.lower(), _value(tokens))
    name = text[2:].replace("`", "").lower()
    scope, _, rest = name.partition(".")
    if rest:
        return Assignment("global" if scope in ("global", "persist") else "session", rest, _value(tokens))
    return Assignment("session", name, _value(tokens))


def _value(tokens: Tokens) -> str:
    if not tokens.accept(":="):
        tokens.expect("=")
    start, depth = tokens.peek(), 0
    end = start.start
    while not tokens.at_end:
        token = tokens.peek()
        if token.text == "," and depth == 0:
            break
        depth += (token.text == "(") - (token.text == ")")
        end = tokens.next().end
    if end == start.start:
        raise tokens.error()
    shape = tokens.shape[start.start : end]
    first = tokens.shape.count("\x01", 0, start.start)
    return fill_slots(shape, tokens.values[first:])


def _transaction(tokens: Tokens, scope: str) -> list[Assignment]:
    assignments = []
    while True:
        if tokens.accept("ISOLATION", "LEVEL"):
            assignments.append(Assignment(scope, "transaction_isolation", f"'{_level(tokens)}'"))
        elif tokens.accept("READ", "ONLY"):
            assignments.append(Assignment(scope, "transaction_read_only", "1"))
        else:
            tokens.expect("READ", "WRITE")
            assignments.append(Assignment(scope, "transaction_read_only", "0"))
        if not tokens.accept(","):
            return assignments


def _level(tokens: Tokens) -> str:
    if tokens.accept("REPEATABLE", "READ"):
        return "REPEATABLE-READ"
    if tokens.accept("SERIALIZABLE"):
        return "SERIALIZABLE"
    tokens.expect("READ")
    word = tokens.accept_one("COMMITTED", "UNCOMMITTED")
    if not word:
        raise tokens.error()
    return f"READ-{word}"


def _lock(tokens: Tokens) -> Command:
    if not tokens.accept_one("TABLES", "TABLE"):
        raise unsupported("this form of LOCK")
    write = False
    while True:
        tokens.qualified_name()
        if tokens.accept("AS") or tokens.peek().upper not in ("READ", "WRITE", "LOW_PRIORITY"):
            tokens.name()
        tokens.accept("LOW_PRIORITY")
        kind = tokens.accept_one("READ", "WRITE")
        if not kind:
            raise tokens.error()
        tokens.accept("LOCAL")
        write = write or kind == "WRITE"
        if not tokens.accept(","):
            return LockTables(write)


def _unlock(tokens: Tokens) -> Command:
    if not tokens.accept_one("TABLES", "TABLE"):
        raise unsupported("this form of UNLOCK")
    return UnlockTables()


def _prepare(tokens: Tokens) -> Command:
    name = tokens.name()
    tokens.expect("FROM")
    token = tokens.next()
    if token.kind == "variable":
        return PrepareText(name.lower(), token.text)
    tokens.position -= 1
    return PrepareText(name.lower(), string_literal(tokens.string()))


def _execute(tokens: Tokens) -> Command:
    name = tokens.name()
    variables = []
    if tokens.accept("USING"):
        while True:
            token = tokens.next()
            if token.kind != "variable" or token.text.startswith("@@"):
                tokens.position -= 1
                raise tokens.error()
            variables.append(token.text)
            if not tokens.accept(","):
                break
    return ExecuteText(name.lower(), tuple(variables))


def _deallocate(tokens: Tokens) -> Command:
    tokens.expect("PREPARE")
    return Deallocate(tokens.name().lower())


def _do(tokens: Tokens) -> Command:
    shape, first = tokens.rest()
    tokens.position = 1 << 30
    return Evaluate(fill_slots(shape, tokens.values[first:]))


def _flush(tokens: Tokens) -> Command:
    tokens.position = 1 << 30
    return NoOperation()


def _call(tokens: Tokens) -> Command:
    database, name = tokens.qualified_name()
    raise SqlError(1305, f"PROCEDURE {database or 'main'}.{name} does not exist")


def _checksum(tokens: Tokens) -> Command:
    raise unsupported("CHECKSUM TABLE", "compare the rows")


def _maintain(operation: str) -> Callable[[Tokens], Command]:
    def read(tokens: Tokens) -> Command:
        tokens.accept_one("NO_WRITE_TO_BINLOG", "LOCAL")
        if not tokens.accept_one("TABLE", "TABLES"):
            raise unsupported(f"this form of {operation.upper()}")
        names = [tokens.qualified_name()[1]]
        while tokens.accept(","):
            names.append(tokens.qualified_name()[1])
        while tokens.accept_one("QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM", "FOR", "UPGRADE"):
            pass
        return Maintain(operation, tuple(names))

    return read


_READERS = {
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _release,
    "USE": _use,
    "SET": _set,
    "LOCK": _lock,
    "UNLOCK": _unlock,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "DROP": _deallocate,
    "DO": _do,
    "FLUSH": _flush,
    "CALL": _call,
    "CHECKSUM": _checksum,
    "ANALYZE": _maintain("analyze"),
    "OPTIMIZE": _maintain("optimize"),
    "CHECK": _maintain("check"),
    "REPAIR": _maintain("repair"),
}
