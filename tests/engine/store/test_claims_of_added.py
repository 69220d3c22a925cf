"""claim_added against a database that answers as told: what no server can be made to do at will."""

from __future__ import annotations

import pytest
from memory_store import make_spec

from engine.backend.base import Answer
from engine.model.errors import BackendError, BackendUnavailable
from engine.store.base import ForeseenLease, LeaseUnknown
from engine.store.operations.lease import FirstDeliveries, claim_added
from engine.store.statements.mysql import MYSQL
from engine.store.statements.queue import QueueStatements

SPEC = make_spec()
UNTIL = 1_000_001
LEASE = ForeseenLease(UNTIL, 1, 2)


class Database:
    """A connection to MariaDB, or to MySQL where it is not `waits_not`."""

    def __init__(self, *answers, error=None, replicates=False, waits_not=True):
        self.answers, self.error, self.replicates, self.asked = list(answers), error, replicates, []
        self.without_waiting = "AT ONCE " if waits_not else ""

    def run(self, statements, *, last=False, alone=False):
        assert last
        self.asked.append(([statement.sql for statement in statements], alone))
        if self.error is not None:
            raise self.error
        return self.answers


def row(id_):
    return (b"7", b"%d" % id_, b"50", b"%d" % UNTIL, b"1", None, b"x", b"5", b"77")


def claimed(database, ids=(1, 2)):
    answers = claim_added(database, QueueStatements(MYSQL, SPEC), SPEC, ids, LEASE, 77)
    return None if answers is None else FirstDeliveries(SPEC).leased(answers)


def test_one_statement_needs_no_transaction_and_a_lock_before_it_does():
    for waits_not in (True, False):
        database = Database(Answer([], 2), Answer([row(1), row(2)], 0), waits_not=waits_not)
        claim = claimed(database)
        assert [(message.id, message.due_ns, message.lease_until_ns) for message in claim.messages] == [
            (1, 5, UNTIL),
            (2, 5, UNTIL),
        ]
        assert claim.now_ns == 7 and {message.token for message in claim.messages} == {77}
        ((statements, alone),) = database.asked
        assert alone == waits_not and [text.split()[0] for text in statements] == (
            ["AT", "SELECT"] if waits_not else ["SELECT", "UPDATE", "SELECT"]
        )


def test_what_has_ended_since_its_lease_takes_no_other_with_it():
    claim = claimed(Database(Answer([], 2), Answer([row(2)], 0)))
    assert [message.id for message in claim.messages] == [2]


def test_more_rows_than_were_leased_are_none_of_ours():
    assert claimed(Database(Answer([], 1), Answer([row(1), row(2)], 0))) is None


@pytest.mark.parametrize(
    "error", [BackendUnavailable("gone"), BackendError("killed", 1317), BackendError("late", 1969)]
)
def test_leases_that_may_hold_are_told(error):
    with pytest.raises(LeaseUnknown) as caught:
        claimed(Database(error=error))
    assert [(lease.id, lease.epoch, lease.lease_until_ns) for lease in caught.value.leases] == [
        (1, 1, UNTIL),
        (2, 1, UNTIL),
    ]


@pytest.mark.parametrize("errno", [1205, 3572, 1146, 1054])
def test_what_was_refused_is_not_leased(errno):
    with pytest.raises(BackendError) as caught:
        claimed(Database(error=BackendError("no", errno)))
    assert not isinstance(caught.value, LeaseUnknown)


@pytest.mark.parametrize("errno", [1205, 1213, 1054, 1146])
def test_what_is_leased_and_cannot_be_read_is_told(errno):
    error = BackendError("no", errno)
    error.committed = 1
    with pytest.raises(LeaseUnknown) as caught:
        claimed(Database(error=error))
    assert [lease.id for lease in caught.value.leases] == [1, 2]


def test_a_node_of_a_cluster_is_not_asked():
    database = Database(replicates=True)
    assert claimed(database) is None and not database.asked
