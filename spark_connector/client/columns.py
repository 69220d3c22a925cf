"""Columns of a queue, and their Spark types, by the names of Spark's DDL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_connector.errors import SchemaError

_TYPE = re.compile(r"(?P<base>[a-z]+)\s*(?:\((?P<args>[^)]*)\))?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_PLAIN = {
    "smallint": "smallint", "mediumint": "int", "int": "int", "integer": "int", "bigint": "bigint", "year": "int",
    "float": "float", "double": "double", "real": "double", "date": "date", "datetime": "timestamp_ntz",
    "timestamp": "timestamp", "time": "string", "char": "string", "varchar": "string", "tinytext": "string",
    "text": "string", "mediumtext": "string", "longtext": "string", "enum": "string", "set": "string", "json": "string",
    "uuid": "string", "inet4": "string", "inet6": "string", "binary": "binary", "varbinary": "binary",
    "tinyblob": "binary", "blob": "binary", "mediumblob": "binary", "longblob": "binary", "tinyint": "tinyint",
    "geometry": "binary", "point": "binary", "linestring": "binary", "polygon": "binary", "multipoint": "binary",
    "multilinestring": "binary", "multipolygon": "binary", "geometrycollection": "binary", "geomcollection": "binary",
}  # fmt: skip
_UNSIGNED = {"tinyint": "smallint", "smallint": "int", "mediumint": "int", "int": "bigint", "bigint": "decimal(20,0)"}
_PRECISION_MAX = 38  # the limit of Spark's decimals
_TIMES = frozenset({"time_scheduled", "time_created", "time_next", "time_acked"})


@dataclass(frozen=True)
class Column:
    """A column of a queue's table."""

    name: str
    type: str  # as the database declares it: "bigint(20) unsigned"
    nullable: bool = True
    generated: bool = False
    auto: bool = False  # AUTO_INCREMENT
    default: bool = False  # has a default other than NULL
    collation: str | None = None  # of text
    invisible: bool = False  # selected only by name, not by `*`

    @property
    def base(self) -> str:
        """The type's first word, in lower case."""
        return _parts(self.type)[0]

    @property
    def is_time(self) -> bool:
        """Whether it is a time of the queue's or topic's own: unix time in nanoseconds."""
        return self.base == "bigint" and self.name.lower() in _TIMES

    @property
    def args(self) -> str:
        """The arguments in the type's parentheses: "20" of varchar(20)."""
        return _parts(self.type)[1]


@dataclass(frozen=True)
class Field:
    """A column in Spark: its name and its type in Spark's DDL."""

    name: str
    type: str
    nullable: bool = True


def spark_type(column: Column) -> str:
    """The column's Spark type, unless the user's schema has another one. Raises SchemaError."""
    base, args, rest = _parts(column.type)
    if base == "bit":
        return "boolean" if args in ("", "1") else "bigint" if int(args) < 64 else "decimal(20,0)"
    if base in ("decimal", "numeric"):
        return _decimal(args)
    if "unsigned" in rest and base in _UNSIGNED:
        return _UNSIGNED[base]
    if base in _PLAIN:
        return _PLAIN[base]
    raise SchemaError(
        f"column {column.name} is of type {column.type}, which Spark has no type for: leave it out by .schema(...)"
    )


def fields(columns: Iterable[Column], *, times: bool = False) -> tuple[Field, ...]:
    """The Spark schema of a queue's table. `times`: columns with times are TIMESTAMP, not BIGINT."""
    return tuple(
        Field(column.name, "timestamp" if times and column.is_time else spark_type(column), column.nullable)
        for column in columns
        if not column.invisible
    )


def ddl(of: Sequence[Field]) -> str:
    """The fields as DDL, which Spark parses."""
    return ", ".join(f"`{f.name.replace('`', '``')}` {f.type}{'' if f.nullable else ' NOT NULL'}" for f in of)


def _decimal(args: str) -> str:
    precision, scale = (*args.split(","), "0")[:2] if args else ("10", "0")
    return f"decimal({int(precision)},{int(scale)})" if int(precision) <= _PRECISION_MAX else "string"


def _parts(declared: str) -> tuple[str, str, str]:
    parts = _TYPE.match(declared.strip())
    if parts is None:
        return "", "", ""
    return parts["base"].lower(), (parts["args"] or "").strip(), parts["rest"].lower()
