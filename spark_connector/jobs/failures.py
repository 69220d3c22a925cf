"""What went wrong, in one line: for whoever reads a terminal or a scheduler's mail, where a Java trace helps nobody."""

from __future__ import annotations

import re

import pymysql

from spark_connector.errors import ConnectorError

_OURS = re.compile(r"spark_connector\.(?:errors|jobs\.failures)\.\w+: (?P<text>.+)")
# The last line of a trace of Python's: the class and its text; lines of code before it are indented.
_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*(?P<name>[\w.]+)(?:: (?P<text>.*))?")
_DATABASE = re.compile(r"\((?P<number>\d+), (?P<quote>['\"])(?P<text>.*)(?P=quote)\)")
_SPARK_TAIL = re.compile(r"\s*SQLSTATE: \w+.*$")
_CORRUPT = re.compile(r"(?P<what>\S+) is not a Parquet file|Could not read footer for file: (?P<footer>\S+)")
_NAMED = re.compile(r"(?:[\w.$]+: )?\[[A-Z0-9_.]+\]")
_CAUSES_MAX = 20
_LENGTH_MAX = 500  # of a line: Spark's own texts may hold whole plans


class JobError(ConnectorError):
    """A job cannot do what it was asked; what it had begun does not count."""


def one_line(error: BaseException) -> str:
    """The error as a single line that says what to look at."""
    if isinstance(error, ConnectorError):
        return _short(str(error))
    if isinstance(error, pymysql.Error):
        return _short(f"the database says: error {error.args[0]}: {error.args[-1]}")
    text = _everything(error)
    for find in (_ours, _corrupt, _python):
        if found := find(text):
            return _short(found)
    return _short(_spark(text))


def _everything(error: BaseException) -> str:
    """The texts of the error and of all its causes, those of Java included, without where in Java they were raised."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return str(error) or type(error).__name__
    texts: list[str] = []
    while java is not None and len(texts) < _CAUSES_MAX:
        texts.append(str(java.toString()))
        java = java.getCause()
    return "\n".join(texts)


def _ours(text: str) -> str | None:
    """The error that one of our own functions raised in a Python worker, from the trace that came back."""
    found = _OURS.search(text)
    return found["text"] if found else None


def _python(text: str) -> str | None:
    """Any other error of a Python worker, without the way to it."""
    traces = list(_PYTHON.finditer(text))
    if not traces:
        return None
    found = traces[-1]  # that one nobody caught
    name, words = found["name"].rpartition(".")[2], found["text"] or ""
    if found["name"].startswith("pymysql.") and (told := _DATABASE.fullmatch(words.strip())):
        return f"the database says: error {told['number']}: {told['text']}"
    return f"a task failed: {name}: {words}" if words else f"a task failed: {name}"


def _corrupt(text: str) -> str | None:
    found = _CORRUPT.search(text)
    return f"{found['what'] or found['footer']} is not a Parquet file, or is damaged" if found else None


def _spark(text: str) -> str:
    """Spark's own words, `[LIKE_THIS] what is wrong`, or the first cause of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    named = next((line for line in lines if _NAMED.match(line)), lines[-1])
    without_package = re.sub(r"^(?:[\w$]+\.)+(?=[\w$]+:)", "", named)
    return _SPARK_TAIL.sub("", re.sub(r"^[\w$]+: (?=\[)", "", without_package))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 3] + "..."
