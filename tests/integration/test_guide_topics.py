"""The guide on topics, from its first session to its last, word for word, on both backends. Only the port differs."""

from __future__ import annotations

import re

import pytest
from servers import ROOT, Sql
from sessions import client_binary, first, run_client, run_python, sessions

GUIDE = ROOT / "docs" / "guide-topics.md"


@pytest.fixture(autouse=True)
def nothing_left(gate):
    """The guide ends with nothing left; a test of it may end earlier."""
    yield
    client = Sql(gate.connect())
    if client.rows("SHOW TOPICS LIKE 'placed_orders'"):
        for row in client.rows("SHOW GROUPS ON placed_orders"):
            client(f"DROP GROUP {row[2]} ON placed_orders")
        client("DROP TOPIC placed_orders")
    client("DROP QUEUE IF EXISTS boxes")
    client("DROP TABLE IF EXISTS shop_orders")
    client.close()


@pytest.mark.parametrize("program", ["mariadb", "mysql"])
def test_the_guide(gate, program):
    """What is printed by every session, those in Python included, with either command-line client."""
    binary = client_binary(program)
    if binary is None:
        pytest.skip(f"no client of the name {program}; its twin is tested")
    command = first(GUIDE, "sh").strip()
    for session in sessions(GUIDE):
        if session.language == "sh":
            continue
        run = run_python(gate, session.text) if session.language == "python" else None
        done = run or run_client(gate, command, binary, session.text)
        assert (done.returncode, done.stderr) == (0, ""), session.text
        assert done.stdout == session.printed, session.text


def test_the_statements_of_the_guide_also_with_pymysql(gate, connect):
    """The same rows, from a driver in place of the terminal."""
    client = connect()
    for session in sessions(GUIDE):
        if session.language == "python":
            done = run_python(gate, session.text)
            assert (done.returncode, done.stdout) == (0, session.printed), done.stderr
        elif session.language == "sql":
            found = []
            for statement in filter(None, (part.strip() for part in session.text.split(";"))):
                if statement.startswith("SELECT"):
                    found += [[str(value) for value in row] for row in client.rows(statement)]
                else:
                    client(statement)
            assert found == [row for row in cells(session.printed or "") if not row[0].isalpha()], session.text


def cells(tables: str) -> list[list[str]]:
    """The rows of printed tables, the heads included."""
    lines = re.findall(r"^\|(.*)\|$", tables, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_each_session_shows_what_it_prints():
    for session in sessions(GUIDE):
        assert session.language in ("sh", "sql", "python")
        assert session.language == "sh" or session.printed is not None, session.text
