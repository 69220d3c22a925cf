"""Client programs and what they print: run against the proxy and against the server itself, to be compared.

A program takes host, port, user, database and names of sections. It prints `== name` before a section and `-- done`
behind it, and nothing that differs from run to run. So equal transcripts mean that the client saw no difference.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from servers import DATABASE, Gate, MariaDb
from toolchains import Program

RUN_SECONDS = 110  # below the time that a test may take: the transcript so far is worth more than a cut test
DONE = "-- done"

# A queue in plain SQL from CREATE to DROP, as every client program tells it.
QUEUE_STORY = """\
enqueued 3
row | 10 | Größe 🎉 日本 | 0x00ff
row | 11 | it's \\ "quoted" %s ? | NULL
row | NULL | NULL | 0x
due: nothing
due: nothing
acked 1
acked 0
acked 1
acked 1
acked 2
fired 1
error 1146 42S02
streamed 100, acked 1
streamed 101, acked 1
streamed 102, acked 1
streamed 103, acked 1
streamed 104, acked 1
ended 1317 70100
goes on 1
acked 7
fired 1
-- done""".splitlines()


@dataclass(frozen=True)
class Address:
    """Where a client connects; root needs no password."""

    port: int
    database: str
    host: str = "127.0.0.1"
    user: str = "root"


def address_of(server: Gate | MariaDb) -> Address:
    """A gate's own database; on a server that of the same name."""
    return Address(server.port, server.database if isinstance(server, Gate) else DATABASE)


Sections = dict[str, list[str]]


class Transcripts:
    """What programs printed, by address; each program runs once for each group of sections."""

    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}
        self._kept: dict[tuple[str, Address, tuple[str, ...]], Sections] = {}

    def program(self, name: str, build: Callable[[], Program]) -> Program:
        """The program of this name, built at first need."""
        if name not in self._programs:
            self._programs[name] = build()
        return self._programs[name]

    def sections(self, name: str, arguments: Sequence[str], address: Address, sections: Sequence[str]) -> Sections:
        """The lines of each section."""
        key = (f"{name} {' '.join(arguments)}", address, tuple(sections))
        if key not in self._kept:
            self._kept[key] = run(self._programs[name], arguments, address, sections)
        return self._kept[key]


def run(program: Program, arguments: Sequence[str], address: Address, sections: Sequence[str]) -> Sections:
    """Run a program and cut up what it printed. What a section's end lacks is told in its last lines, and what a driver
    wrote to stderr."""
    where = [address.host, str(address.port), address.user, address.database]
    command = [*program.command, *arguments, *where, *sections]
    done = None
    try:
        done = subprocess.run(
            command, env={**os.environ, **program.environment}, timeout=RUN_SECONDS, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, encoding="utf-8", errors="backslashreplace", check=False,
        )  # fmt: skip
        printed, complaints = done.stdout, f"exit code {done.returncode}\n{done.stderr[-6000:]}"
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode("utf-8", "backslashreplace")
        complaints = (
            f"did not end in {RUN_SECONDS} s\n{(error.stderr or b'').decode('utf-8', 'backslashreplace')[-6000:]}"
        )
    found = cut(printed)
    if done is not None and done.returncode == 0 and done.stderr:
        # A driver that finds something odd in what it reads says so there, and goes on.
        return {name: [*found.get(name, []), *f"stderr:\n{done.stderr[-6000:]}".splitlines()] for name in sections}
    return {name: ended(found.get(name, []), complaints) for name in sections}


def cut(printed: str) -> Sections:
    """The lines under each `== name`."""
    parts = re.split(r"^== (\w+)\n", printed, flags=re.M)
    return {name: text.splitlines() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def ended(lines: list[str], complaints: str) -> list[str]:
    return lines if lines[-1:] == [DONE] else [*lines, *complaints.splitlines()]


def assert_same(direct: list[str], proxied: list[str]) -> None:
    """A section that did not come to its end proves nothing, even if it failed alike on both sides."""
    assert direct[-1] == DONE, "directly at the server:\n" + "\n".join(direct)
    different = "\n".join(unified_diff(direct, proxied, "at the server", "through the proxy", lineterm="", n=1))
    assert not different, different


def assert_same_sections(direct: Sections, proxied: Sections) -> None:
    """The same of each section; names all that differ."""
    assert direct
    differing = []
    for section, lines in direct.items():
        try:
            assert_same(lines, proxied.get(section, []))
        except AssertionError as error:
            differing.append(f"== {section}\n{error}")
    assert not differing, "\n".join(differing)
