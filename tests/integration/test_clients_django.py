"""Django: migrations, the ORM, transactions, introspection and a queue in raw SQL, over PyMySQL.

The project is in django_site/. It prints what it sees; that is compared with the same project at the server itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from toolchains import Program
from transcripts import DONE, Transcripts, address_of, assert_same_sections

pytestmark = pytest.mark.long

PROGRAM = Program((sys.executable, str(Path(__file__).parent / "django_site" / "story.py")))
SECTIONS = ("migrate", "crud", "queries", "transactions", "introspection", "flush", "zero")


@pytest.fixture(scope="session")
def project() -> Transcripts:
    transcripts = Transcripts()
    transcripts.program("django", lambda: PROGRAM)
    return transcripts


@pytest.mark.timeout(240)
def test_a_project_is_as_without_the_proxy(project, mariadb, gate):
    direct, proxied = (project.sections("django", (), address_of(at), SECTIONS) for at in (mariadb, gate))
    assert_same_sections(direct, proxied)


def test_a_queue_in_the_transactions_of_the_orm(project, gate):
    assert project.sections("django", (), address_of(gate), ("queue",))["queue"] == [
        "rolled back",
        """[('sold-1', '{"price": 1}'), ('sold-2', '{"price": 1}')]""",
        "acked 1",
        "(('sold-1', 'acked'), ('sold-2', 'fired'))",
        "[('old', True), ('sold-1', False), ('sold-2', True)]",
        DONE,
    ]
