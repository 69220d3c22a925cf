"""Column and key definitions, as CREATE TABLE and ALTER TABLE share them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from embedded.compile.definitions.types import check_collation, read_type
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.schema import Check, Column, Default, ForeignKey, Index, IndexPart
from embedded.compile.text.literal_lifting import literal_text
from embedded.compile.text.parse import mysql_text, parse_expression
from embedded.compile.text.tokens import Tokens
from embedded.compile.values.types import Kind, SqlType

_NOW = frozenset(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"))
_ACTIONS = frozenset(("CASCADE", "RESTRICT"))
Key = Index | Check | ForeignKey


@dataclass(eq=False, slots=True)
class DefinitionReader:
    """Reads definitions from a statement's tokens. Constraints without a name get theirs when the table is known."""

    tokens: Tokens
    collation: str

    def column(self, name: str) -> tuple[Column, list[Key]]:
        """A column definition after its name, with the keys that it brings."""
        serial = self.tokens.peek().upper == "SERIAL"
        reading = _ColumnReading(self, Column(name, read_type(self.tokens, self.collation)))
        if serial:
            reading.column = replace(reading.column, nullable=False, auto_increment=True)
            reading.keys.append(Index("", (IndexPart(name),), unique=True))
        while reading.attribute():
            pass
        return reading.column, reading.keys

    def key(self) -> Key | None:
        """A key or constraint definition; None when a column definition comes next."""
        tokens, name = self.tokens, ""
        if tokens.accept("CONSTRAINT") and tokens.peek().upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            name = tokens.name()
        word = tokens.peek().upper
        if word in ("INDEX", "KEY") and tokens.peek(1).kind in ("word", "quoted", "symbol"):
            tokens.next()
            return self._index("", unique=False)
        if word == "PRIMARY" and tokens.peek(1).upper == "KEY":
            tokens.expect("PRIMARY", "KEY")
            return self._index("PRIMARY", unique=True)
        if word == "UNIQUE" and tokens.peek(1).text:
            tokens.next()
            tokens.accept_one("INDEX", "KEY")
            return self._index(name, unique=True)
        if word == "FOREIGN" and tokens.peek(1).upper == "KEY":
            tokens.expect("FOREIGN", "KEY")
            return self._foreign_key(name)
        if word == "CHECK" and tokens.peek(1).text == "(":
            tokens.next()
            return self.check(name)
        if word in ("FULLTEXT", "SPATIAL") and tokens.peek(1).upper in ("INDEX", "KEY", "("):
            raise unsupported(f"{word} indexes", "leave the index out")
        if name:
            raise tokens.error()
        return None

    def check(self, name: str) -> Check:
        """CHECK (expression), after the word."""
        text = self.expression()
        if self.tokens.accept("NOT", "ENFORCED"):
            raise unsupported("CHECK ... NOT ENFORCED", "leave the constraint out")
        self.tokens.accept("ENFORCED")
        return Check(name, text)

    def expression(self) -> str:
        """(expression), in MySQL's words."""
        shape, first = self.tokens.parenthesised()
        return self.text_of(shape, first)

    def text_of(self, shape: str, first: int) -> str:
        tree = parse_expression(shape, self.tokens.values, first)
        return mysql_text(tree, self.tokens.values)

    def default(self, sql_type: SqlType, name: str) -> Default | None:
        """What follows DEFAULT; None is DEFAULT NULL."""
        tokens = self.tokens
        if tokens.accept("NULL"):
            return None
        if tokens.peek().text == "(":
            return Default(self.expression(), expression=True)
        negative = tokens.accept("-") or (tokens.accept("+") and False)
        token = tokens.next()
        if token.kind == "slot":
            return _literal_default(tokens, token.slot, negative, bits=sql_type.kind is Kind.BIT)
        word = token.upper
        if word in ("TRUE", "FALSE"):
            return Default("1" if word == "TRUE" else "0")
        if word in _NOW:
            return Default(None, now=self.decimals())
        if tokens.peek().text == "(" and token.kind == "word":
            shape, first = tokens.parenthesised()
            return Default(self.text_of(f"{token.text}({shape})", first), expression=True)
        tokens.position -= 1
        raise tokens.error()

    def decimals(self) -> int:
        """The optional (n) after CURRENT_TIMESTAMP."""
        if not self.tokens.accept("("):
            return 0
        if self.tokens.accept(")"):
            return 0
        decimals = self.tokens.integer()
        self.tokens.expect(")")
        return decimals

    def _index(self, name: str, unique: bool) -> Index:
        tokens = self.tokens
        if tokens.peek().text != "(" and tokens.peek().upper != "USING":
            index_name = tokens.name()
            name = index_name if name != "PRIMARY" else name
        if tokens.accept("USING"):
            tokens.name()
        parts = self.parts()
        return Index(name, parts, unique, self.index_options())

    def parts(self) -> tuple[IndexPart, ...]:
        """(column [(length)] [ASC | DESC], ...)."""
        tokens = self.tokens
        tokens.expect("(")
        parts = [self._part()]
        while tokens.accept(","):
            parts.append(self._part())
        tokens.expect(")")
        return tuple(parts)

    def _part(self) -> IndexPart:
        if self.tokens.peek().text == "(":
            raise unsupported("indexes on expressions", "index a generated column")
        name = self.tokens.name()
        length = None
        if self.tokens.accept("("):
            length = self.tokens.integer()
            self.tokens.expect(")")
        return IndexPart(name, length, self.tokens.accept_one("ASC", "DESC") == "DESC")

    def index_options(self) -> str:
        """Options after an index; returns the comment."""
        comment = ""
        while True:
            word = self.tokens.accept_one("USING", "COMMENT", "KEY_BLOCK_SIZE", "VISIBLE", "INVISIBLE")
            match word:
                case "":
                    return comment
                case "USING":
                    self.tokens.name()
                case "COMMENT":
                    comment = self.tokens.string()
                case "KEY_BLOCK_SIZE":
                    self.tokens.accept("=")
                    self.tokens.integer()
                case "INVISIBLE":
                    raise unsupported("invisible indexes", "drop the index")

    def _foreign_key(self, name: str) -> ForeignKey:
        if self.tokens.peek().text != "(":
            constraint_name = self.tokens.name()
            name = name or constraint_name
        columns = self.tokens.names()
        self.tokens.expect("REFERENCES")
        return self.references(name, columns)

    def references(self, name: str, columns: tuple[str, ...]) -> ForeignKey:
        """table (columns) [ON DELETE ...] [ON UPDATE ...], after REFERENCES."""
        tokens = self.tokens
        database, table = tokens.qualified_name()
        if database not in (None, "main"):
            raise SqlError(1824, f"Failed to open the referenced table '{table}'")
        references = tokens.names()
        if tokens.accept("MATCH"):
            tokens.name()
        actions = {"DELETE": "NO ACTION", "UPDATE": "NO ACTION"}
        while tokens.accept("ON"):
            event = tokens.accept_one("DELETE", "UPDATE")
            if not event:
                raise tokens.error()
            actions[event] = self._action()
        return ForeignKey(name, columns, table, references, actions["DELETE"], actions["UPDATE"])

    def _action(self) -> str:
        if self.tokens.accept("SET", "NULL"):
            return "SET NULL"
        if self.tokens.accept("NO", "ACTION"):
            return "NO ACTION"
        word = self.tokens.accept_one(*_ACTIONS)
        if not word:
            raise self.tokens.error()
        return word


@dataclass(eq=False, slots=True)
class _ColumnReading:
    reader: DefinitionReader
    column: Column
    keys: list[Key] = field(default_factory=list)

    def attribute(self) -> bool:
        """Read one attribute; False when none comes next."""
        tokens = self.reader.tokens
        word = tokens.peek().upper
        action = _ATTRIBUTES.get(word)
        if action is None:
            return False
        tokens.next()
        return action(self)

    def set(self, **changes: object) -> bool:
        self.column = replace(self.column, **changes)  # type: ignore[arg-type]
        return True

    def not_null(self) -> bool:
        self.reader.tokens.expect("NULL")
        return self.set(nullable=False)

    def null(self) -> bool:
        return self.set(nullable=True)

    def default(self) -> bool:
        return self.set(default=self.reader.default(self.column.type, self.column.name))

    def auto_increment(self) -> bool:
        return self.set(auto_increment=True, nullable=False)

    def unique(self) -> bool:
        self.reader.tokens.accept("KEY")
        return self._key(Index("", (IndexPart(self.column.name),), unique=True))

    def primary(self) -> bool:
        self.reader.tokens.expect("KEY")
        return self._key(Index("PRIMARY", (IndexPart(self.column.name),), unique=True))

    def plain_key(self) -> bool:
        return self._key(Index("PRIMARY", (IndexPart(self.column.name),), unique=True))

    def comment(self) -> bool:
        return self.set(comment=self.reader.tokens.string())

    def collate(self) -> bool:
        collation = check_collation(self.reader.tokens.name_or_string())
        if self.column.type.kind in (Kind.STRING, Kind.ENUM):
            self.set(type=replace(self.column.type, collation=collation))
        return True

    def on_update(self) -> bool:
        self.reader.tokens.expect("UPDATE")
        if self.reader.tokens.next().upper not in _NOW:
            raise self.reader.tokens.error()
        return self.set(on_update_now=self.reader.decimals())

    def generated(self) -> bool:
        self.reader.tokens.expect("ALWAYS", "AS")
        return self.computed()

    def computed(self) -> bool:
        text = self.reader.expression()
        kind = self.reader.tokens.accept_one("VIRTUAL", "STORED", "PERSISTENT")
        return self.set(generated=text, stored=kind in ("STORED", "PERSISTENT"))

    def check(self) -> bool:
        return self._key(self.reader.check(""))

    def constraint(self) -> bool:
        tokens = self.reader.tokens
        name = "" if tokens.peek().upper == "CHECK" else tokens.name()
        tokens.expect("CHECK")
        return self._key(self.reader.check(name))

    def references(self) -> bool:
        return self._key(self.reader.references("", (self.column.name,)))

    def ignored_word(self) -> bool:
        self.reader.tokens.next()
        return True

    def visible(self) -> bool:
        return True

    def invisible(self) -> bool:
        raise unsupported("INVISIBLE columns", "name the columns you select")

    def _key(self, key: Key) -> bool:
        self.keys.append(key)
        return True


_ATTRIBUTES = {
    "NOT": _ColumnReading.not_null,
    "NULL": _ColumnReading.null,
    "DEFAULT": _ColumnReading.default,
    "AUTO_INCREMENT": _ColumnReading.auto_increment,
    "UNIQUE": _ColumnReading.unique,
    "PRIMARY": _ColumnReading.primary,
    "KEY": _ColumnReading.plain_key,
    "COMMENT": _ColumnReading.comment,
    "COLLATE": _ColumnReading.collate,
    "ON": _ColumnReading.on_update,
    "GENERATED": _ColumnReading.generated,
    "AS": _ColumnReading.computed,
    "CHECK": _ColumnReading.check,
    "CONSTRAINT": _ColumnReading.constraint,
    "REFERENCES": _ColumnReading.references,
    "COLUMN_FORMAT": _ColumnReading.ignored_word,
    "STORAGE": _ColumnReading.ignored_word,
    "VISIBLE": _ColumnReading.visible,
    "INVISIBLE": _ColumnReading.invisible,
}


def _literal_default(tokens: Tokens, slot: int, negative: bool, *, bits: bool) -> Default:
    value = tokens.values[slot]
    if bits and isinstance(value, str | bytes):
        value = int.from_bytes(value.encode() if isinstance(value, str) else value, "big")
    if isinstance(value, bytes):
        return Default(literal_text(value), expression=True)
    text = str(value) if isinstance(value, str) else literal_text(value)
    text = re.sub(r"e0$", "", text) if isinstance(value, float) else text
    return Default(f"-{text}" if negative else text)
