"""The test cases of task backends that Django ships, run against QueuegateBackend over a real proxy.

The backport's own cases are these, and its source distribution lacks them. So both are tested by those of Django's
source, which pip fetches from PyPI. That of django-tasks-db, whose backend polls a table, has its cases.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from django_environments import (
    BACKPORT,
    BACKPORTS_CASES,
    HERE,
    PROJECT,
    WHERE,
    cases_of,
    database_cases,
    python_with,
    variables,
)
from slowness import scaled

pytestmark = pytest.mark.long


def version_of(python: str) -> str:
    command = [python, "-c", "import django; print(django.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("django", "place"), WHERE, indirect=["place"])
def test_djangos_own_cases(django, new_gate):
    python = python_with(django)
    tests = cases_of(BACKPORTS_CASES if django == BACKPORT else version_of(python))
    run("run_cases.py", python, tests, variables(new_gate().start()), least=60)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("django", "place"), WHERE, indirect=["place"])
def test_cases_of_the_database_backend(django, new_gate):
    environment = variables(new_gate().start())
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE / "database_cases"), environment["PYTHONPATH"]])
    run("run_database_cases.py", python_with(django), database_cases(), environment, least=35)


def run(program, python, tests, environment, *, least):
    """Run the cases of a file or folder, of which there are so many; none may fail."""
    done = subprocess.run(
        [python, HERE / program, tests], env=environment, capture_output=True, text=True, timeout=scaled(300),
        check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert not told["failed"], "\n\n".join(told["failed"].values())[:8000]
    assert told["ran"] >= least and told["unknown"] == [], (told["ran"], told["unknown"])


def test_no_chapter_of_the_project_is_left_out():
    text = (PROJECT / "chapters.py").read_text()
    names = set(re.findall(r"\w+", re.search(r"^CHAPTERS = \((.*?)^\)", text, re.MULTILINE | re.DOTALL)[1]))
    assert names == set(re.findall(r'chapter\("(\w+)"\)', (HERE / "test_django_chapters.py").read_text()))
