"""What went wrong, in one line: for whoever reads a terminal or a scheduler's mail, where a Java trace helps nobody."""

from __future__ import annotations

import re
from collections.abc import Callable

import pymysql

from spark_connector.errors import ConnectorError

_OURS = re.compile(r"spark_connector\.(?:errors|jobs\.failures)\.\w+: (?P<text>.+)")
_SPARK_TAIL = re.compile(r"\s*SQLSTATE: \w+\s*$")
_CORRUPT = re.compile(r"(?P<what>\S+) is not a Parquet file|Could not read footer for file: (?P<footer>\S+)")
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
    for find in (_ours, _corrupt):
        if found := find(text):
            return _short(found)
    return _short(_spark(text) if "[" in text else f"{type(error).__name__}: {text}")


def _everything(error: BaseException) -> str:
    """The texts of the error and of all its causes, those of Java included."""
    texts = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and len(texts) < 20:
        texts.append(str(java))
        java = _cause(java)
    return "\n".join(texts)


def _cause(java: object) -> object | None:
    get: Callable[[], object] | None = getattr(java, "getCause", None)
    return get() if get is not None else None


def _ours(text: str) -> str | None:
    """The error that one of our own functions raised in a Python worker, from the trace that came back."""
    found = _OURS.search(text)
    return found["text"] if found else None


def _corrupt(text: str) -> str | None:
    found = _CORRUPT.search(text)
    return f"{found['what'] or found['footer']} is not a Parquet file, or is damaged" if found else None


def _spark(text: str) -> str:
    """Spark's own words: the first line that names an error condition, `[LIKE_THIS] what is wrong`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = next((line for line in lines if re.match(r"(?:[\w.]+: )?\[[A-Z_.]+\]", line)), lines[0])
    return _SPARK_TAIL.sub("", re.sub(r"^[\w.]+: (?=\[)", "", named))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 3] + "..."
