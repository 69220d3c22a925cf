"""Several statements on a client's line as one: how such a unit ends, on servers that read less than MySQL does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.model.errors import BackendError
from mysql_wire.outcome import Outcome
from proxy.errors import BackendLost
from proxy.statements.unit_of_work import UnitOfWork

COMMIT = "COMMIT AND NO CHAIN NO RELEASE"
VITESS = Outcome(1105, "syntax error at position 11 near 'AND'", "HY000")
"""As Vitess 22 answers that COMMIT."""


class Line:
    """An upstream that answers as it is told, and notes what it was asked."""

    status, alive = 0x2, True  # autocommit

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    async def collect(self, sql):
        self.asked.append(sql)
        return self.answers.get(sql, Outcome())


class Session:
    def __init__(self, upstream, backend_id=None, *, in_transaction=False):
        self.upstream = upstream
        upstream.status = 0x3 if in_transaction else 0x2
        self.backend = SimpleNamespace(backend_id=backend_id)

    def pinned(self, sql, pins):
        return sql


async def run(answers):
    line = Line(answers)
    unit = UnitOfWork(Session(line))
    async with unit.unit():
        await unit.do("UPDATE t SET a = 1")
    return line.asked


async def test_a_server_that_cannot_read_the_commit_gets_a_plain_one():
    assert await run({COMMIT: VITESS}) == ["START TRANSACTION", "UPDATE t SET a = 1", COMMIT, "COMMIT"]


async def test_other_servers_get_the_commit_that_no_setting_changes():
    assert await run({}) == ["START TRANSACTION", "UPDATE t SET a = 1", COMMIT]


async def test_a_commit_that_fails_is_not_repeated():
    """It may have been carried out, or the transaction may be gone: a second one would report a success."""
    line = Line({COMMIT: Outcome(1105, "transaction 17: ended at 12:00 (exceeded timeout: 30s)", "HY000")})
    with pytest.raises(BackendError, match="exceeded timeout"):
        async with UnitOfWork(Session(line)).unit():
            pass
    assert line.asked == ["START TRANSACTION", COMMIT, "ROLLBACK"]


class Lost(Line):
    """As a session that outlives its lines: one is lost at the first change, and the next statement opens another."""

    def __init__(self):
        super().__init__({})
        self.number = 7

    async def collect(self, sql):
        if sql.startswith("UPDATE"):
            self.number = None
            raise BackendLost("the server is gone")
        self.number = self.number or 8
        return await super().collect(sql)


@pytest.mark.parametrize("inside", [False, True])
async def test_nothing_is_undone_on_a_line_that_is_opened_after_the_first_was_lost(inside):
    """The client learns of the loss, and no connection is opened only to roll nothing back."""
    line = Lost()
    unit = UnitOfWork(Session(line, lambda: line.number, in_transaction=inside))
    with pytest.raises(BackendLost, match="the server is gone"):
        async with unit.unit():
            await unit.do("UPDATE t SET a = 1")
    assert line.asked == ["SAVEPOINT queuegate_unit" if inside else "START TRANSACTION"]
    assert line.number is None


@pytest.mark.parametrize("inside", [False, True])
async def test_a_statement_that_fails_is_undone_on_the_same_line(inside):
    line = Line({"UPDATE t SET a = 1": Outcome(1062, "Duplicate entry", "23000")})
    unit = UnitOfWork(Session(line, lambda: 7, in_transaction=inside))
    with pytest.raises(BackendError, match="Duplicate entry"):
        async with unit.unit():
            await unit.do("UPDATE t SET a = 1")
    undone = ["ROLLBACK TO SAVEPOINT queuegate_unit", "RELEASE SAVEPOINT queuegate_unit"] if inside else ["ROLLBACK"]
    assert line.asked[2:] == undone
