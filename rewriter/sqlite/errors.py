"""What the SQLite dialect refuses, with MySQL's numbers, SQLSTATEs and texts."""

from __future__ import annotations

from rewriter.errors import RewriteError, UnsupportedSql

_SQLSTATES = {
    1048: "23000",
    1049: "42000",
    1050: "42S01",
    1051: "42S02",
    1052: "23000",
    1054: "42S22",
    1060: "42S21",
    1061: "42000",
    1062: "23000",
    1064: "42000",
    1065: "42000",
    1066: "42000",
    1067: "42000",
    1068: "42000",
    1069: "42000",
    1072: "42000",
    1074: "42000",
    1075: "42000",
    1090: "42000",
    1091: "42000",
    1109: "42S02",
    1110: "42000",
    1111: "HY000",
    1136: "21S01",
    1146: "42S02",
    1170: "42000",
    1171: "42000",
    1176: "42000",
    1179: "25000",
    1193: "HY000",
    1222: "21000",
    1231: "42000",
    1232: "42000",
    1238: "HY000",
    1241: "21000",
    1242: "21000",
    1243: "HY000",
    1248: "42000",
    1264: "22003",
    1265: "01000",
    1288: "HY000",
    1292: "22007",
    1305: "42000",
    1318: "42000",
    1364: "HY000",
    1365: "22012",
    1366: "HY000",
    1406: "22001",
    1425: "42000",
    1426: "42000",
    1439: "42000",
    1451: "23000",
    1452: "23000",
    1517: "HY000",
    1525: "HY000",
    1568: "25001",
    1582: "42000",
    1690: "22003",
    1792: "25006",
    3105: "HY000",
    3140: "22032",
    3819: "HY000",
    3822: "HY000",
}


class SqlError(RewriteError):
    """A statement or value refused with the given MySQL number."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno
        self.sqlstate = _SQLSTATES.get(errno, "HY000")


class ValueRefused(SqlError):
    """A value does not fit its column. The text ends in 'at row N'; the row is known when the statement runs."""

    def __init__(self, errno: int, text: str) -> None:
        super().__init__(errno, f"{text} at row 1")
        self.text = text

    def at_row(self, row: int) -> ValueRefused:
        self.message = f"{self.text} at row {row}"
        self.args = (self.message,)
        return self


def unknown_column(name: str, clause: str) -> SqlError:
    return SqlError(1054, f"Unknown column '{name}' in '{clause}'")


def unknown_table(name: str, database: str = "main") -> SqlError:
    return SqlError(1146, f"Table '{database}.{name}' doesn't exist")


def unsupported(what: str, instead: str = "") -> UnsupportedSql:
    """1235 with what to do instead."""
    hint = f"; {instead}" if instead else ""
    return UnsupportedSql(f"The embedded backend does not support {what}{hint}")
