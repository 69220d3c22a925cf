"""Clients of other languages: Java with both connectors, Go, Node, PHP with mysqli and PDO.

Each is one small program beside this file. What it prints is compared with the same program's transcript at the server
itself; the story of a queue, which they all tell, is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import toolchains
from toolchains import Program
from transcripts import DONE, QUEUE_STORY, Address, Transcripts, address_of, assert_same_sections

# The first test of a client fetches its driver, compiles it and runs it twice.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


@dataclass(frozen=True)
class Client:
    """A program with the arguments that choose its driver, and its sections."""

    program: str
    build: Callable[[Path], Program]
    ordinary: tuple[str, ...]  # SQL that every backend understands
    server: tuple[str, ...]  # what takes a database server behind
    arguments: tuple[str, ...] = ()


_JAVA = (
    "types", "batches", "cursors", "keys", "transactions", "errors", "several_results", "session", "charsets",
    "compressed", "cancel", "metadata",
)  # fmt: skip
_JAVA_SERVER = ("messages", "bulk", "procedures", "load_data", "large")
_GO = ("types", "rows", "keys", "transactions", "errors", "several_results", "session", "cancel", "pool")
_NODE = (
    "types", "streaming", "callbacks", "transactions", "errors", "several_results", "session", "pool", "compressed",
    "timeouts",
)  # fmt: skip
_PHP = ("types", "results", "transactions", "errors", "several_results", "session", "compressed")
_PROGRAMS = ("procedures", "load_data", "large")

CLIENTS = {
    "connector-j": Client("java", toolchains.java, _JAVA, _JAVA_SERVER, ("mysql",)),
    "mariadb-connector-j": Client("java", toolchains.java, _JAVA, _JAVA_SERVER, ("mariadb",)),
    "go": Client("go", toolchains.go, _GO, _PROGRAMS),
    "go-compressed": Client("go_compressed", toolchains.go_compressed, ("compressed",), ()),
    "node": Client("node", toolchains.node, _NODE, _PROGRAMS),
    "php": Client("php", toolchains.php, _PHP, _PROGRAMS),
}


def every(kind: str) -> pytest.MarkDecorator:
    """Each client that has sections of this kind."""
    return pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if getattr(client, kind)])


@pytest.fixture(scope="session")
def transcripts() -> Transcripts:
    return Transcripts()


@pytest.fixture
def lines(
    transcripts: Transcripts, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Address, tuple[str, ...]], dict[str, list[str]]]:
    """What a client prints at an address, by section."""

    def run(client: str, address: Address, sections: tuple[str, ...]) -> dict[str, list[str]]:
        chosen = CLIENTS[client]
        transcripts.program(chosen.program, lambda: chosen.build(tmp_path_factory.mktemp(chosen.program)))
        return transcripts.sections(chosen.program, chosen.arguments, address, sections)

    return run


@every("ordinary")
def test_ordinary_sql_is_as_without_the_proxy(lines, mariadb, gate, client):
    sections = CLIENTS[client].ordinary
    assert_same_sections(lines(client, address_of(mariadb), sections), lines(client, address_of(gate), sections))


@every("server")
def test_what_a_server_can_do_is_as_without_the_proxy(lines, mariadb, mariadb_gate, client):
    sections = CLIENTS[client].server
    direct = lines(client, address_of(mariadb), sections)
    assert_same_sections(direct, lines(client, address_of(mariadb_gate), sections))


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "go-compressed"])
def test_a_queue_in_plain_sql(lines, gate, client):
    assert lines(client, address_of(gate), ("queue",))["queue"] == QUEUE_STORY


def test_a_context_that_ends_gives_the_messages_back(lines, gate):
    """Go's driver hangs up then."""
    told = lines("go", address_of(gate), ("hang_up",))["hang_up"]
    assert told == ["received [1 7 1]", "ended: context canceled", "row | 1 | 7 | 2", DONE]
