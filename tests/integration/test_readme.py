"""The README's paste-in sessions, word for word, on both backends. Only the port differs: the test's own."""

from __future__ import annotations

import re
import tomllib

import pytest
from servers import ROOT, Sql
from sessions import client_binary, first, run_client, sessions

from queuegate.command_line import parser

DOCUMENT = ROOT / "README.md"
README = DOCUMENT.read_text()


@pytest.fixture(autouse=True)
def no_queues_left(gate):
    yield
    client = Sql(gate.connect())
    client("DROP QUEUE IF EXISTS greetings")
    client.close()


@pytest.mark.parametrize("program", ["mysql", "mariadb"])
def test_the_session_with_the_command_line_client(gate, program):
    (command,) = re.findall(r"`(mysql -h[^`]+)`", README)
    binary = client_binary(program)
    if binary is None:
        pytest.skip(f"no client of the name {program}; its twin is tested")
    done = run_client(gate, command, binary, first(DOCUMENT, "sql"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "id\trecipient\tbody",
        "1\tann@example.com\tHello",
        "2\tbob@example.com\tHi",
        "id\trecipient\tstate\tepoch",
        "1\tann@example.com\tacked\t1",
        "2\tbob@example.com\tacked\t1",
    ]


def test_the_session_of_the_command_line_client_also_with_pymysql(gate, connect):
    client = connect()
    counts = []
    for line in first(DOCUMENT, "sql").splitlines():
        for statement in filter(None, (part.strip() for part in line.split(";"))):
            counts.append(client(statement))
    assert counts == [0, 0, 2, 0, 2, 2, 2]


def test_the_opening_commands_are_there():
    opening = first(DOCUMENT, "sh")
    targets = re.findall(r"^make (\w+)", opening, re.MULTILINE)
    assert targets == ["run", "test"]
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make (\w+)`", README) + targets:
        assert target == "help" or re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_commands_without_a_copy_of_the_source_are_those_of_the_package():
    (block,) = (each.text for each in sessions(DOCUMENT) if each.text.startswith("uvx "))
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run, install = block.splitlines()
    words = run.partition("#")[0].split()[1:]
    assert install.split()[:3] == ["pip", "install", package["name"]]
    assert words[0] in package["scripts"], "uvx runs the command that is called like the package"
    assert parser().parse_args(words[1:]).console == "127.0.0.1:8307"
    assert run.partition("#")[0].removeprefix("uvx ").strip() in install


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists(), link
