"""Errors as one line, for a terminal or a scheduler's mail, where a Java trace is not useful."""

from __future__ import annotations

import re

import pymysql

from spark_connector.errors import ConnectorError

_OWN_ERROR = re.compile(r"spark_connector\.(?:errors|jobs\.failures)\.\w+: (?P<text>.+)")
# The last line of a trace of Python's: the class and its text; lines of code before it are indented.
_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*(?P<name>[\w.]+)(?:: (?P<text>.*))?")
_DATABASE = re.compile(r"\((?P<number>\d+), (?P<quote>['\"])(?P<text>.*)(?P=quote)\)")
_SPARK_TAIL = re.compile(r"\s*SQLSTATE: \w+.*$")
_CORRUPT = re.compile(r"(?P<what>\S+) is not a Parquet file|Could not read footer for file: (?P<footer>\S+)")
_NAMED = re.compile(r"(?:[\w.$]+: )?\[[A-Z0-9_.]+\]")
_CAUSES_MAX = 20
_LENGTH_MAX = 500  # of a line: Spark's own texts may contain whole plans


class JobError(ConnectorError):
    """A job has failed; its partial work does not count."""


def one_line(error: BaseException) -> str:
    """The error as a single line."""
    if isinstance(error, ConnectorError):
        return _short(str(error))
    if isinstance(error, pymysql.Error):
        return _short(f"the database says: error {error.args[0]}: {error.args[-1]}")
    text = _everything(error)
    for find in (_own_error, _corrupt, _python):
        if message := find(text):
            return _short(message)
    return _short(_spark(text))


def _everything(error: BaseException) -> str:
    """The texts of the error and of all its causes, including Java's, without the Java stack traces."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return str(error) or type(error).__name__
    texts: list[str] = []
    while java is not None and len(texts) < _CAUSES_MAX:
        texts.append(str(java.toString()))
        java = java.getCause()
    return "\n".join(texts)


def _own_error(text: str) -> str | None:
    """An error of the connector from a Python worker, found in the trace."""
    match = _OWN_ERROR.search(text)
    return match["text"] if match else None


def _python(text: str) -> str | None:
    """Any other error of a Python worker, without its stack."""
    traces = list(_PYTHON.finditer(text))
    if not traces:
        return None
    last = traces[-1]  # the uncaught one
    name, message = last["name"].rpartition(".")[2], last["text"] or ""
    if last["name"].startswith("pymysql.") and (database_error := _DATABASE.fullmatch(message.strip())):
        return f"the database says: error {database_error['number']}: {database_error['text']}"
    return f"a task failed: {name}: {message}" if message else f"a task failed: {name}"


def _corrupt(text: str) -> str | None:
    match = _CORRUPT.search(text)
    return f"{match['what'] or match['footer']} is not a Parquet file, or is damaged" if match else None


def _spark(text: str) -> str:
    """Spark's own message, `[LIKE_THIS] what is wrong`, or the root cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    named = next((line for line in lines if _NAMED.match(line)), lines[-1])
    without_package = re.sub(r"^(?:[\w$]+\.)+(?=[\w$]+:)", "", named)
    return _SPARK_TAIL.sub("", re.sub(r"^[\w$]+: (?=\[)", "", without_package))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 3] + "..."
