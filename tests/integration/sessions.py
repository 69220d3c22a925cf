"""Sessions in documents: fenced blocks to paste, each with what it prints in a block of text below it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servers import Gate, find_binary

PORT = 3307  # in the documents; the test's own differs
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Session:
    """What is pasted, in which language, and what it prints; None where the document does not say."""

    language: str
    text: str
    printed: str | None


def sessions(document: Path) -> list[Session]:
    """All blocks of a document but those of text, in their order."""
    blocks = [*_FENCED.findall(document.read_text()), ("", "")]
    return [
        Session(language, text, following[1] if following[0] == "text" else None)
        for (language, text), following in itertools.pairwise(blocks)
        if language != "text"
    ]


def first(document: Path, language: str) -> str:
    """The first block in a language."""
    return next(session.text for session in sessions(document) if session.language == language)


def run_client(gate: Gate, command: str, binary: str, sql: str) -> subprocess.CompletedProcess[str]:
    """The client command of a document with statements to its standard input."""
    arguments = command.split()[1:]
    assert f"-P{PORT}" in arguments
    given = [f"-P{gate.port}" if part == f"-P{PORT}" else part for part in arguments]
    return subprocess.run(
        [binary, "--no-defaults", *given], input=sql, capture_output=True, text=True, timeout=60, check=False
    )


def run_python(gate: Gate, text: str) -> subprocess.CompletedProcess[str]:
    """A program of a document, which names the port once."""
    assert text.count(str(PORT)) == 1
    return subprocess.run(
        [sys.executable, "-c", text.replace(str(PORT), str(gate.port))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def client_binary(program: str) -> str | None:
    """The command-line client of this name. At least one of both has to be there."""
    assert find_binary("mysql") or find_binary("mariadb"), "no command-line client is installed"
    return find_binary(program)
