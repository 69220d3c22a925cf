"""CREATE QUEUE to CREATE TABLE and back.

The queue's own columns come before the user's, except those that the user declares: these keep their type and place,
and get only what the engine requires (a default, a unique key on id, the generated expression of state).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from engine.model.attempts import ATTEMPTS_TYPE
from engine.model.errors import InvalidOption
from engine.model.key_range import SLOT_COLUMN
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE
from engine.model.marked_name import marked_for
from engine.model.options import INDEX_NAMES, QueueOptions, option_items, to_comment
from engine.model.queue import (
    ATTEMPTS_COLUMN,
    ERROR_COLUMNS,
    ERROR_TYPE,
    SYSTEM_COLUMNS,
    QueueName,
    QueueSpec,
    quoted,
    unfit_order_key,
)
from rewriter.errors import UnsupportedSql
from rewriter.grammar.create_queue import parse_create_table
from rewriter.grammar.statements import ColumnItem, Item, KeyItem
from rewriter.plans.sharding import DUE_INDEX, declared_ring
from rewriter.text.literals import plain_literal
from rewriter.text.tokens import Name, word_set

ENGINE = "ENGINE=InnoDB"
"""Whatever the session's default is: other engines know no transactions."""
_STATE = (
    "GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' "
    "WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL"
)
DEAD_STATE = "GENERATED ALWAYS AS (CASE WHEN time_acked IS NOT NULL THEN 'acked' ELSE 'dead' END) VIRTUAL"
_INTEGERS = frozenset(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT"))
_TEXTS = word_set("CHAR VARCHAR CHARACTER NCHAR NVARCHAR ENUM SET")
_NAME_MAX = 64
_TIMES_RULE = "_times_ns"
"""How the name of the constraint ends that refuses times in another unit. The name is what the error shows."""
_IS_TIMES_RULE = re.compile(
    rf"CONSTRAINT `(?:[^`]|``)*(?:_chk(?:_\w{{8}})?{_TIMES_RULE}|_times_are_nanoseconds)` CHECK\b"
)
_YEAR_2000_NS = 946_684_800 * 10**9
_TYPES = {
    "priority": _INTEGERS,
    "epoch": _INTEGERS,
    "time_scheduled": frozenset(("BIGINT",)),
    "time_next": frozenset(("BIGINT",)),
    "time_created": frozenset(("BIGINT",)),
    "time_acked": frozenset(("BIGINT",)),
    **dict.fromkeys(ERROR_COLUMNS, frozenset(("VARCHAR", "TEXT", "MEDIUMTEXT", "LONGTEXT"))),
    ATTEMPTS_COLUMN: frozenset(("MEDIUMTEXT", "LONGTEXT")),
    TOKEN_COLUMN: frozenset(("BIGINT",)),
}
_NO_ID = word_set("FLOAT FLOAT4 FLOAT8 DOUBLE REAL TIME TIMESTAMP BIT JSON GEOMETRY POINT LINESTRING POLYGON")
_NO_WHOLE_INDEX = word_set("TINYTEXT TEXT MEDIUMTEXT LONGTEXT TINYBLOB BLOB MEDIUMBLOB LONGBLOB JSON GEOMETRY")
_WITHOUT_WHOLE_INDEX = 252  # the protocol's type code of all these
_NULLABLE = ("time_next", "time_acked", *ERROR_COLUMNS, ATTEMPTS_COLUMN)
_COUNTED = ("priority", "epoch", TOKEN_COLUMN)


def comment_literal(comment: str, table: str) -> str:
    """The comment as that of this table, as a string literal that reads the same in every sql_mode; COMMENT takes no
    other. Raises InvalidOption where there is none."""
    text = marked_for(comment, table)
    if "\\" in text:
        raise InvalidOption(f"a queue's comment cannot hold a backslash: {text}")
    return "'" + text.replace("'", "''") + "'"


def index_columns(columns: Iterable[str]) -> str:
    """Columns of an index; only the user's own need quotes."""
    return ", ".join(name if name in SYSTEM_COLUMNS else quoted(name) for name in columns)


def quoted_name(name: Name) -> str:
    """The name as SQL; qualified if it is."""
    return quoted(name.table) if name.database is None else QueueName(name.database, name.table).sql


def create_table(
    name: Name,
    items: tuple[Item, ...],
    options: QueueOptions,
    now_sql: str,
    *,
    if_not_exists: bool,
    numbered: bool = True,
) -> str:
    """The CREATE TABLE that makes the queue. Not `numbered`: its ids are not the table's own.

    Raises:
        UnsupportedSql: the user declares one of the queue's columns so that it could not work.
        InvalidOption: message_cols names a column that is not there.
    """
    declared = {item.name.lower(): item for item in items if isinstance(item, ColumnItem)}
    _check_message_columns(options, declared)
    _check_order_key(options, declared)
    _check_group_key(options, declared)
    ring = declared_ring(options, declared)
    defaults = _defaults(now_sql, dead=options.dead_letter_of is not None)
    if not numbered:
        _check_id_over_shards(declared.get("id"))
        defaults["id"] = defaults["id"].replace(" AUTO_INCREMENT", "")
    primary = any(_is_primary(item) for item in items)
    if "id" not in declared and not primary:
        defaults["id"] += " PRIMARY KEY"
    definitions = [f"{column} {definition}" for column, definition in defaults.items() if column not in declared]
    deferred = [text for text in definitions if "time_scheduled" in declared and text.startswith("time_next ")]
    definitions = [text for text in definitions if text not in deferred]
    for item in items:
        definitions.append(_user_item(item, defaults))
        if isinstance(item, ColumnItem) and item.name.lower() == "time_scheduled":
            # An expression default may only refer to columns before it (MySQL 8).
            definitions.extend(deferred)
    definitions.extend(_id_key(items, declared, primary))
    definitions.extend(ring)
    definitions.append(f"KEY {DUE_INDEX} ({', '.join(options.due_index)})")
    definitions.extend(f"KEY {name} ({index_columns(columns)})" for name, columns in options.needed_indexes)
    definitions.append(times_rule(name.table))
    exists = "IF NOT EXISTS " if if_not_exists else ""
    comment = comment_literal(to_comment(options), name.table)
    return f"CREATE TABLE {exists}{quoted_name(name)} ({', '.join(definitions)}) {ENGINE} COMMENT={comment}"


def _defaults(now_sql: str, *, dead: bool) -> dict[str, str]:
    """The definitions of the queue's own columns, in order. `dead`: of a dead-letter queue."""
    return {
        "id": "BIGINT NOT NULL AUTO_INCREMENT",
        "priority": "TINYINT NOT NULL DEFAULT 50",
        "time_scheduled": f"BIGINT NOT NULL DEFAULT {now_sql}",
        "time_next": "BIGINT NULL DEFAULT (time_scheduled)",
        "epoch": "BIGINT NOT NULL DEFAULT 0",
        "time_created": f"BIGINT NOT NULL DEFAULT {now_sql}",
        "time_acked": "BIGINT NULL",
        "state": f"VARCHAR(11) {DEAD_STATE if dead else _STATE}",
        **dict.fromkeys(ERROR_COLUMNS, ERROR_TYPE),
        ATTEMPTS_COLUMN: ATTEMPTS_TYPE,
        TOKEN_COLUMN: TOKEN_TYPE,
    }


def times_rule(table: str, columns: Iterable[str] = ("time_scheduled", "time_next")) -> str:
    """The constraint that refuses a time before the year 2000: it is a time in seconds or milliseconds, or a DATETIME.

    As nanoseconds such a time is in the past, so the message would be delivered at once. 0 and below mean "now". In
    MySQL the names of constraints are unique in a database, without case, and RENAME TABLE changes those that begin
    with the table's name and `_chk_`. So the rule's name is short, too: the new one must not be too long.
    """
    ending = f"_chk{_TIMES_RULE}"
    if table != table.lower() or len(table + ending) > _NAME_MAX:
        ending = f"_chk_{hashlib.sha256(table.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}{_TIMES_RULE}"
    name = table[: _NAME_MAX - len(ending)] + ending
    good = (f"{column} <= 0 OR {column} >= {_YEAR_2000_NS}" for column in columns)
    return f"CONSTRAINT {quoted(name)} CHECK (({') AND ('.join(good)}))"


def _check_id_over_shards(item: ColumnItem | None) -> None:
    if item is not None and ("AUTO_INCREMENT" in item.words or not _INTEGERS.intersection(item.words[:1])):
        _refuse(item, "in a sharded keyspace it must be an integer without AUTO_INCREMENT: ids come from a sequence")


def _check_message_columns(options: QueueOptions, declared: dict[str, ColumnItem]) -> None:
    for column in options.message_cols:
        if column.lower() not in declared and column.lower() not in SYSTEM_COLUMNS:
            raise InvalidOption(f"message_cols: '{column}' is not a column of the queue")


def _check_order_key(options: QueueOptions, declared: dict[str, ColumnItem]) -> None:
    types = {**dict.fromkeys(SYSTEM_COLUMNS, 0), **{name: type_code(item) for name, item in declared.items()}}
    if reason := unfit_order_key(options.order_key, types):
        raise InvalidOption(reason)


def type_code(item: ColumnItem) -> int:
    """The code of a declared column's type, as far as it determines whether the whole column can be indexed."""
    return _WITHOUT_WHOLE_INDEX if _NO_WHOLE_INDEX.intersection(item.words[:1]) else 0


def _check_group_key(options: QueueOptions, declared: dict[str, ColumnItem]) -> None:
    name = options.group_key
    if name is None:
        return
    item = declared.get(name.lower())
    if item is None or name.lower() in SYSTEM_COLUMNS:
        raise InvalidOption(f"group_key: '{name}' is not a column of yours in the queue")
    if not (_INTEGERS | _TEXTS).intersection(item.words[:1]):
        raise InvalidOption(f"group_key: '{name}' must be an integer, a VARCHAR, a CHAR, an ENUM or a SET")


# --- the user's items


def _user_item(item: Item, defaults: dict[str, str]) -> str:
    if isinstance(item, KeyItem) or item.name.lower() not in defaults:
        return item.text
    name = item.name.lower()
    if name == "id":
        return _user_id(item)
    if name == "state":
        made, bare = defaults[name].partition(" ")[2], not _ATTRIBUTES.intersection(item.words)
        return f"{item.text} {made}" if bare else _refuse(item, "give only its type; it is generated")
    if not item.words or item.words[0] not in _TYPES[name]:
        return _refuse(item, f"its type must be {' or '.join(sorted(_TYPES[name]))}")
    if "GENERATED" in item.words or "AS" in item.words or "AUTO_INCREMENT" in item.words:
        return _refuse(item, "it must be an ordinary column")
    return _with_default(item, name, defaults[name])


def _user_id(item: ColumnItem) -> str:
    """Whatever can be a key and whose text finds its row again; not NULL, for without an id nothing can be acked."""
    if item.words and item.words[0] in _NO_ID:
        return _refuse(item, "its type must be an integer, a string, a binary string, a decimal or a date")
    nullness = _nullness(item)
    if nullness == "NULL":
        return _refuse(item, "it must not allow NULL, for every message needs an id")
    if nullness is not None or {"GENERATED", "AS", "REFERENCES", "PRIMARY"}.intersection(item.words):
        return item.text
    return f"{item.text} NOT NULL"


def _with_default(item: ColumnItem, name: str, default: str) -> str:
    if name in _NULLABLE and _nullness(item) == "NOT NULL":
        return _refuse(item, "it must allow NULL: time_next of an acked message, the others of a new one")
    if name in _COUNTED and (_nullness(item) == "NULL" or _default_is_null(item)):
        return _refuse(item, "it must not be NULL")
    if name == "time_acked" and "DEFAULT" in item.words and not _default_is_null(item):
        return _refuse(item, "its default must be NULL: a new message is not acked")
    nullness = " NOT NULL" if name not in _NULLABLE and _nullness(item) is None else ""
    if "DEFAULT" in item.words or "DEFAULT" not in default:
        return item.text + (nullness if name in _COUNTED else "")
    return f"{item.text}{nullness} DEFAULT{default.partition(' DEFAULT')[2]}"


def _refuse(item: ColumnItem, why: str) -> str:
    raise UnsupportedSql(f"Column '{item.name}' is one of the queue's own: {why}, or leave it out")


_ATTRIBUTES = word_set(
    "NOT NULL DEFAULT GENERATED AS AUTO_INCREMENT PRIMARY UNIQUE KEY REFERENCES CHECK COMMENT ON INVISIBLE"
)


def _default_is_null(item: ColumnItem) -> bool:
    pairs = zip(item.words, item.words[1:], strict=False)
    return ("DEFAULT", "NULL") in pairs


def _nullness(item: ColumnItem) -> str | None:
    """NOT NULL, NULL, or None if not specified. NULL after DEFAULT or SET (of a foreign key) does not count."""
    for before, word in zip(("", *item.words), item.words, strict=False):
        if word == "NULL" and before == "NOT":
            return "NOT NULL"
        if word == "NULL" and before not in ("DEFAULT", "SET"):
            return "NULL"
    return None


# --- keys


def _id_key(items: tuple[Item, ...], declared: dict[str, ColumnItem], primary: bool) -> list[str]:
    """The key that makes id unique, unless its own definition or the user's keys do."""
    id_column = declared.get("id")
    if id_column is not None and {"PRIMARY", "UNIQUE", "KEY"}.intersection(id_column.words):
        return []
    if any(_is_unique_key_on_id(item) for item in items):
        return []
    if primary:
        return ["UNIQUE KEY (id)"]
    return ["PRIMARY KEY (id)"] if id_column is not None else []


def _is_unique_key_on_id(item: Item) -> bool:
    if not isinstance(item, KeyItem) or not {"PRIMARY", "UNIQUE"}.intersection(item.words):
        return False
    return [column.lower() for column in item.columns] == ["id"]


def _is_primary(item: Item) -> bool:
    if isinstance(item, KeyItem):
        return "PRIMARY" in item.words
    return "PRIMARY" in item.words or ("KEY" in item.words and "UNIQUE" not in item.words)


# --- back


_INT = r"(?:\(\d+\))?"
_NOW = r"\(+timestampdiff\([^;]*\)"
_AS_CREATED = {
    "id": rf"bigint{_INT} NOT NULL AUTO_INCREMENT(?: PRIMARY KEY)?",
    "priority": rf"tinyint{_INT} NOT NULL DEFAULT '?50'?",
    "time_scheduled": rf"bigint{_INT} NOT NULL DEFAULT {_NOW}",
    "time_next": rf"bigint{_INT} (?:NULL )?DEFAULT \(?`?time_scheduled`?\)?",
    "epoch": rf"bigint{_INT} NOT NULL DEFAULT '?0'?",
    "time_created": rf"bigint{_INT} NOT NULL DEFAULT {_NOW}",
    "time_acked": rf"bigint{_INT}(?: NULL)?(?: DEFAULT NULL)?",
    "state": r"varchar\(11\).* GENERATED ALWAYS AS .*",
    **dict.fromkeys(
        ERROR_COLUMNS, r"varchar\(1000\)(?: CHARACTER SET \w+)?(?: COLLATE \w+)?(?: NULL)?(?: DEFAULT NULL)?"
    ),
    ATTEMPTS_COLUMN: r"mediumtext(?: CHARACTER SET \w+)?(?: COLLATE \w+)?(?: NULL)?(?: DEFAULT NULL)?",
    TOKEN_COLUMN: rf"bigint{_INT} NOT NULL DEFAULT '?0'?",
    SLOT_COLUMN: r"smallint(?:\(\d+\))? unsigned GENERATED ALWAYS AS .*",
}

_EXECUTABLE_COMMENT = re.compile(r"/\*!\d{5,6} (.*?) ?\*/")
_PARTITIONS = re.compile(r"\n/\*!\d{5,6} PARTITION BY .*\Z", re.DOTALL)


def without_comments(definition: str) -> str:
    """What a server prints of a table, without its partitions, and without the comments around what older versions do
    not know: MySQL prints them."""
    return _EXECUTABLE_COMMENT.sub(r"\1", _PARTITIONS.sub("", definition))


_ESCAPING_STRING = r"'(?:[^'\\]|\\.|'')*'"
_PLAIN_STRING = r"'(?:[^']|'')*'"


def back_quoted(definition: str, *, backslash_escapes: bool = True) -> str:
    """What a server prints under ANSI_QUOTES, as it prints it otherwise: names in back-quotes."""
    string = _ESCAPING_STRING if backslash_escapes else _PLAIN_STRING
    pattern = re.compile(string + r'|`(?:[^`]|``)*`|"((?:[^"]|"")*)"', re.DOTALL)
    return pattern.sub(lambda m: m[0] if m[1] is None else quoted(m[1].replace('""', '"')), definition)


def show_create_queue(create_table_sql: str, spec: QueueSpec, *, backslash_escapes: bool = True) -> str:
    """CREATE QUEUE text that makes this queue again, from SHOW CREATE TABLE of its table.

    Left out: the queue's own columns as CREATE QUEUE makes them, its index, and table options (engine, charset).
    """
    _, items = parse_create_table(without_comments(create_table_sql))
    generated = {item.name.lower() for item in items if isinstance(item, ColumnItem) and _is_as_created(item)}
    user_items = [_as_declared(item) for item in items if not _is_generated(item, generated)]
    columns = "\n  " + ",\n  ".join(user_items) + "\n" if user_items else ""
    text = f"CREATE QUEUE {quoted(spec.name.table)} ({columns})"
    values = option_items(spec.options).items()
    options = ", ".join(f"{name} = {plain_literal(v, backslash_escapes=backslash_escapes)}" for name, v in values)
    return f"{text} WITH ({options})"


def _as_declared(item: Item) -> str:
    """The item as CREATE QUEUE takes it: of state, only the type."""
    is_state = isinstance(item, ColumnItem) and item.name.lower() == "state"
    return re.split(r" GENERATED ALWAYS AS ", item.text, maxsplit=1)[0] if is_state else item.text


def _is_as_created(item: ColumnItem) -> bool:
    pattern = _AS_CREATED.get(item.name.lower())
    return pattern is not None and re.fullmatch(pattern, item.definition, re.IGNORECASE | re.DOTALL) is not None


def _is_generated(item: Item, generated: set[str]) -> bool:
    if isinstance(item, ColumnItem):
        return item.name.lower() in generated
    words = item.text.split("(")[0].replace("`", "").split()
    if _IS_TIMES_RULE.match(item.text) or (words[:1] == ["KEY"] and words[1:] in [[name] for name in INDEX_NAMES]):
        return True
    return "id" in generated and _is_unique_key_on_id(item)
