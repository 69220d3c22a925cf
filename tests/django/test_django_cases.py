"""The test cases of task backends that Django ships, run against QueuegateBackend over a real proxy.

The backport's own cases are these, and its source distribution lacks them. So both are tested by those of Django's
source, which pip fetches from PyPI.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from django_environments import BACKPORT, BACKPORTS_CASES, DJANGO_6, HERE, cases_of, python_with, variables
from slowness import scaled

pytestmark = pytest.mark.long


def version_of(python: str) -> str:
    command = [python, "-c", "import django; print(django.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("django", [BACKPORT, DJANGO_6])
def test_djangos_own_cases(django, new_gate):
    python = python_with(django)
    tests = cases_of(BACKPORTS_CASES if django == BACKPORT else version_of(python))
    done = subprocess.run(
        [python, HERE / "run_cases.py", tests], env=variables(new_gate().start()), capture_output=True, text=True,
        timeout=scaled(300), check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert not told["failed"], "\n\n".join(told["failed"].values())[:8000]
    assert told["ran"] >= 60 and told["unknown"] == [], (told["ran"], told["unknown"])
