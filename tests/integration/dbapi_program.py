"""A client of Python's database API: ordinary SQL and a queue, with whichever driver is given; what it sees as lines.

Nothing that differs from run to run is among the lines, so those of two servers can be compared.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

Connect = Callable[..., Any]
TEXT = "x' OR 1=1 -- \\ \" %s ? 🎉 C:\\new Größe 日本"
LONG = 200
COLUMNS = {
    "a TINYINT": -128,
    "b SMALLINT UNSIGNED": 65535,
    "c INT": -(2**31),
    "d BIGINT": 2**63 - 1,
    "e FLOAT": 1.5,
    "f DOUBLE": -1.25 * 2**60,
    "g DECIMAL(30,10)": Decimal("-12345.0123456789"),
    "h VARCHAR(200)": TEXT,
    "i VARBINARY(300)": bytes(range(256)),
    "j DATE": datetime.date(2026, 12, 31),
    "k DATETIME(6)": datetime.datetime(2026, 12, 31, 23, 59, 59, 123456),
    "l TIME(6)": datetime.timedelta(hours=11, minutes=3, seconds=5, microseconds=250000),
    "m LONGTEXT": "y" * 70_000 + "é",
    "n LONGBLOB": b"\x00" * 300_000,
    "o TIMESTAMP NULL": datetime.datetime(2026, 3, 4, 5, 6, 7),
    "p BOOLEAN": True,
    "q CHAR(5)": "",
    "r YEAR": 2026,
    "t ENUM('x','y')": "y",
}
MISTAKES = (
    "INSERT INTO py_errors VALUES (1, 'b')",
    "INSERT INTO py_errors VALUES (2, NULL)",
    "INSERT INTO py_errors VALUES (2, 'too long')",
    "INSERT INTO py_errors (nope) VALUES (2)",
    "INSERT INTO py_missing VALUES (1)",
    "SELEC 1",
)


def shown(value: object) -> str:
    """A value and its type; long ones as length and checksum."""
    if isinstance(value, str | bytes | bytearray) and len(value) > LONG:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return f"{type(value).__name__} of {len(data)} bytes, crc {zlib.crc32(data):08x}"
    return repr(value)


def row(values: Sequence[object]) -> str:
    return "row | " + " | ".join(shown(value) for value in values)


def rows(cursor: Any) -> list[str]:
    return [row(values) for values in cursor.fetchall()]


def describe(cursor: Any) -> list[str]:
    """Names, types and whether NULL is allowed; the other numbers differ between drivers, not between servers."""
    return [f"{column[0]} {column[1]} {column[6]}" for column in cursor.description]


def types(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """Values of every type and NULLs, there and back."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    cursor.execute("DROP TABLE IF EXISTS py_types")
    cursor.execute(f"CREATE TABLE py_types (id INT AUTO_INCREMENT PRIMARY KEY, {', '.join(COLUMNS)})")
    names = [column.split()[0] for column in COLUMNS]
    insert = f"INSERT INTO py_types ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
    lines = []
    for values in (tuple(COLUMNS.values()), (None,) * len(names)):
        cursor.execute(insert, values)
        lines.append(f"inserted {cursor.rowcount} {cursor.lastrowid}")
    for where, value in (("id >= %s", 1), ("h = %s", TEXT), ("k <= %s", COLUMNS["k DATETIME(6)"]), ("g < %s", 0)):
        cursor.execute(f"SELECT * FROM py_types WHERE {where} ORDER BY id", (value,))
        lines += rows(cursor)
    cursor.execute(f"SELECT id, {', '.join(names)} FROM py_types")
    lines += describe(cursor)
    cursor.fetchall()
    cursor.execute("DROP TABLE py_types")
    connection.close()
    return lines


def results(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """Many rows in and out, all at once and in portions."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    cursor.execute("DROP TABLE IF EXISTS py_rows")
    cursor.execute("CREATE TABLE py_rows (n INT PRIMARY KEY, s VARCHAR(500))")
    cursor.executemany("INSERT INTO py_rows (n, s) VALUES (%s, %s)", [(n, "é" * (n % 300)) for n in range(3000)])
    lines = [f"inserted {cursor.rowcount}"]
    cursor.execute("SELECT n, s FROM py_rows WHERE n >= %s ORDER BY n", (100,))
    count = checksum = 0
    while portion := cursor.fetchmany(7):
        count += len(portion)
        checksum = zlib.crc32(repr([tuple(values) for values in portion]).encode(), checksum)
    lines.append(f"{count} rows, {checksum:08x}")
    cursor.execute("UPDATE py_rows SET s = 'x' WHERE n < 10")
    lines.append(f"changed {cursor.rowcount}")
    cursor.execute("UPDATE py_rows SET s = 'x' WHERE n < 11")
    lines.append(f"changed {cursor.rowcount}")
    cursor.execute("DROP TABLE py_rows")
    connection.close()
    return lines


def transactions(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """What another connection sees before and after the end; savepoints."""
    one, two = connect(autocommit=False), connect()
    cursor, other = one.cursor(**cursor_options), two.cursor(**cursor_options)
    cursor.execute("DROP TABLE IF EXISTS py_account")
    cursor.execute("CREATE TABLE py_account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB")
    lines = []

    def seen(when: str) -> None:
        other.execute("SELECT COUNT(*), SUM(balance) FROM py_account")
        lines.append(f"{when}: {row(other.fetchall()[0])}")

    for end in (one.rollback, one.commit):
        cursor.execute("INSERT INTO py_account VALUES (%s, %s), (2, 100)", (1, 100))
        cursor.execute("SAVEPOINT here")
        cursor.execute("UPDATE py_account SET balance = 0")
        cursor.execute("ROLLBACK TO here")
        seen("before")
        end()
        seen("after")
    cursor.execute("SELECT balance FROM py_account WHERE id = 1 FOR UPDATE")
    lines += rows(cursor)
    cursor.execute("UPDATE py_account SET balance = balance - 1 WHERE id = 1")
    one.close()  # in mid-transaction
    seen("hung up")
    other.execute("DROP TABLE py_account")
    two.close()
    return lines


def errors(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """Errors as the driver raises them; the connection goes on after each."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    cursor.execute("DROP TABLE IF EXISTS py_errors")
    cursor.execute("CREATE TABLE py_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)")
    cursor.execute("INSERT INTO py_errors VALUES (1, 'a')")
    lines = []
    for statement in MISTAKES:
        try:
            cursor.execute(statement)
            lines.append(f"{statement}: not refused")
        except Exception as error:
            lines.append(f"{statement}: {type(error).__name__} {error.args[0]} {getattr(error, 'sqlstate', '')}")
    cursor.execute("SELECT COUNT(*) FROM py_errors")
    lines += rows(cursor)
    cursor.execute("DROP TABLE py_errors")
    connection.close()
    return lines


def session(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """Variables, temporary tables and time zones are the connection's own."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    cursor.execute("SET @mine = 7, time_zone = '+02:00'")
    cursor.execute("CREATE TEMPORARY TABLE py_temporary (n INT)")
    cursor.execute("INSERT INTO py_temporary VALUES (1)")
    cursor.execute("SELECT n, @mine, @@session.time_zone, FROM_UNIXTIME(86400) FROM py_temporary")
    lines = rows(cursor)
    other = connect()
    second = other.cursor(**cursor_options)
    second.execute("SELECT @mine, @@autocommit")
    lines += rows(second)
    other.close()
    connection.close()
    return lines


def procedures(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """Stored programs with several results and parameters out; errors and warnings in the server's words."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    cursor.execute("DROP PROCEDURE IF EXISTS py_totals")
    cursor.execute(
        "CREATE PROCEDURE py_totals (IN a INT, INOUT b INT) BEGIN SELECT a; SELECT 7, 'ä' UNION SELECT 8, NULL;"
        " SET b = a + b; END"
    )
    lines = []
    for values in ((3, 4), (5, 6)):
        answer = cursor.callproc("py_totals", values)
        if hasattr(cursor, "stored_results"):
            lines += [line for result in cursor.stored_results() for line in rows(result)]
            lines.append(f"out {answer}")
            continue
        lines += rows(cursor)
        while cursor.nextset():
            lines += rows(cursor)
        cursor.execute("SELECT @_py_totals_0, @_py_totals_1")
        lines += rows(cursor)
    for statement in ("SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001", *MISTAKES[-2:]):
        try:
            cursor.execute(statement)
        except Exception as error:
            lines.append(f"{type(error).__name__} {error.args}")
    cursor.execute("DROP TABLE IF EXISTS py_missing, py_nor_this")
    cursor.execute("SHOW WARNINGS")
    lines += rows(cursor)
    cursor.execute("DROP PROCEDURE py_totals")
    connection.close()
    return lines


def large(connect: Connect, cursor_options: dict[str, Any]) -> list[str]:
    """A value that takes two packets, each way."""
    connection = connect()
    cursor = connection.cursor(**cursor_options)
    content = bytes(range(251)) * ((18 << 20) // 251)
    cursor.execute("DROP TABLE IF EXISTS py_large")
    cursor.execute("CREATE TABLE py_large (x LONGBLOB)")
    cursor.execute("INSERT INTO py_large VALUES (%s)", (content,))
    cursor.execute("SELECT LENGTH(x), CRC32(x), x FROM py_large")
    lines = rows(cursor)
    cursor.execute("DROP TABLE py_large")
    connection.close()
    return lines


def load_data(connect: Connect, cursor_options: dict[str, Any], file: Path) -> list[str]:
    """LOAD DATA LOCAL INFILE; a file that is not there; a client that did not allow it."""
    file.write_text("".join(f"{n}\trow {n} é\n" for n in range(20_000)))
    load = f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE py_load CHARACTER SET utf8mb4"
    connection = connect(local_infile=True)
    cursor = connection.cursor(**cursor_options)
    cursor.execute("DROP TABLE IF EXISTS py_load")
    cursor.execute("CREATE TABLE py_load (n INT, s VARCHAR(40))")
    cursor.execute(load)
    lines = [f"loaded {cursor.rowcount}"]
    cursor.execute("SELECT COUNT(*), SUM(n), MAX(s) FROM py_load")
    lines += rows(cursor)
    cursor.execute("DROP TABLE py_load")
    connection.close()
    refusing = connect(local_infile=False)
    try:
        refusing.cursor(**cursor_options).execute(load.replace("py_load", "py_missing"))
    except Exception as error:
        lines.append(f"not allowed: {type(error).__name__} {error.args[0]}")
    refusing.close()
    return lines


ORDINARY = (types, results, transactions, errors, session)
SERVER = (procedures, large)
