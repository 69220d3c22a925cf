"""The README's paste-in sessions, word for word, on both backends. Only the port differs: the test's own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from servers import ROOT, Sql, find_binary

README = (ROOT / "README.md").read_text()
PORT = 3307


def block(language: str) -> str:
    """The README's first fenced block of a language. The second in Python needs Spark: tests/spark has it."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return found[0]


def cli() -> list[str]:
    """The client command that the README names."""
    (command,) = re.findall(r"`(mysql -h[^`]+)`", README)
    return command.split()


@pytest.fixture(autouse=True)
def no_queues_left(gate):
    yield
    client = Sql(gate.connect())
    client("DROP QUEUE IF EXISTS emails")
    client("DROP QUEUE IF EXISTS jobs")
    client.close()


@pytest.mark.parametrize("program", ["mysql", "mariadb"])
def test_the_session_with_the_command_line_client(gate, program):
    command = cli()
    assert f"-P{PORT}" in command
    binary = find_binary(program)
    if binary is None:
        assert find_binary("mysql") or find_binary("mariadb"), "no command-line client is installed"
        pytest.skip(f"no client of the name {program}; its twin is tested")
    arguments = [f"-P{gate.port}" if part == f"-P{PORT}" else part for part in command[1:]]
    done = subprocess.run(
        [binary, "--no-defaults", *arguments],
        input=block("sql"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "id\trecipient\tbody",
        "1\tann@example.com\tHello",
        "2\tbob@example.com\tHi",
        "id\trecipient\tstate\tepoch",
        "1\tann@example.com\tacked\t1",
        "2\tbob@example.com\tacked\t1",
    ]


def test_the_session_in_python(gate):
    text = block("python")
    assert f"port={PORT}" in text
    done = subprocess.run(
        [sys.executable, "-c", text.replace(f"port={PORT}", f"port={gate.port}")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["working on: resize image 7", "acked: 1"]


def test_the_session_of_the_command_line_client_also_with_pymysql(gate, connect):
    client = connect()
    counts = []
    for line in block("sql").splitlines():
        for statement in filter(None, (part.strip() for part in line.split(";"))):
            counts.append(client(statement))
    assert counts == [0, 0, 2, 0, 2, 2, 2]


def test_the_opening_commands_are_there():
    opening = block("sh")
    targets = re.findall(r"^make (\w+)", opening, re.MULTILINE)
    assert targets == ["run", "test"]
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`", README) + targets:
        assert target == "help" or re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists(), link
