"""The tabs of the tutorial, a program for each language, word for word: each stores the order and its message.

tests/integration/test_pages.py runs the page as a whole, with the first tab.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from page_programs import Build, Ready, go, java, node, php
from page_steps import steps, tabs
from servers import DATABASE, ROOT, Gate, Sql
from sessions import PORT

# The first test of a language fetches its driver and compiles.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

PAGE = ROOT / "docs" / "tutorial.md"
TABS = tabs(PAGE)


def python(text: str, folder: Path, gate: Gate) -> Ready:
    (folder / "program.py").write_text(text)
    return Ready((sys.executable, str(folder / "program.py")))


PROGRAMS: dict[str, Build] = {"Python": python, "Node": node, "Go": go, "Java": java, "PHP": php}


def test_each_tab_is_run():
    first = next(iter(TABS))
    assert (first, TABS[first].language) == ("SQL", "sql"), "which tests/integration/test_pages.py runs"
    assert set(TABS) == {first, *PROGRAMS}


@pytest.mark.parametrize("label", PROGRAMS)
def test_the_program_of_a_tab(new_gate, tmp_path, label):
    gate = new_gate().start()
    client = Sql(gate.connect())
    tables = next(step for step in steps(PAGE) if "CREATE QUEUE parcels" in step.text)
    for statement in tables.text.split(";"):
        if statement.strip():
            client(statement)
    text = TABS[label].text
    assert text.count(str(PORT)) == 1 and DATABASE in text
    folder = tmp_path / "program"
    folder.mkdir()
    ready = PROGRAMS[label](here(text, gate), folder, gate)
    done = subprocess.run(
        ready.command, cwd=folder, env={**os.environ, **ready.environment}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert client.rows("SELECT customer, amount FROM orders") == [("ann", 30)]
    assert client.rows("SELECT address FROM parcels JOIN orders ON orders.id = order_id") == [("Elm Street 7",)]
    client.close()


def here(text: str, gate: Gate) -> str:
    """The program with the port and the database of this test."""
    text = text.replace(f"{PORT}/{DATABASE}", f"{PORT}/{gate.database}")
    for written in (f'database="{DATABASE}"', f"dbname={DATABASE}", f"{PORT})/{DATABASE}"):
        text = text.replace(written, written.replace(DATABASE, gate.database))
    return text.replace(str(PORT), str(gate.port))
