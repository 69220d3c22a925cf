"""TransactionScope: what is reported after commit, rollback, rollback to a savepoint, and unknown outcomes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.model.commit_report import ADDED_MAX, CommitReport, Postponement, Settlement
from engine.model.queue import QueueName
from proxy.session.transaction_scope import TransactionScope, report_single
from rewriter.plan import Effects, TransactionVerb

Q = QueueName("shop", "orders")
INSERT = Effects(touched=frozenset({Q}))
ACK = Effects(settled=((Q, (1, 2)),))
ACK_WHERE = Effects(uncertain=frozenset({Q}))
ASK = CommitReport(touched=frozenset({Q}), uncertain=frozenset({Q}))


def test_autocommit_insert_is_reported_at_once() -> None:
    scope = TransactionScope()
    assert scope.record(INSERT, ok=True, in_transaction=False) == CommitReport(touched=frozenset({Q}))
    assert scope.empty


NAMES = st.sampled_from([Q, QueueName("shop", "bills")])
SETS = st.frozensets(NAMES)
SETTLED = st.lists(st.tuples(NAMES, st.lists(st.integers(1, 9)).map(tuple)), max_size=2).map(tuple)


@given(
    st.builds(
        Effects, SETS, SETTLED, SETS, SETTLED, SETS, tally=st.none() | st.tuples(NAMES, st.just("acked")),
        reason=st.sampled_from(["", "why"]), several=st.booleans(), if_all=st.integers(0, 2),
    ),
    st.integers(0, 3),
)  # fmt: skip
def test_a_statement_alone_is_reported_as_one_in_a_transaction(effects: Effects, affected: int) -> None:
    alone, inside = TransactionScope(), TransactionScope()
    at_once = alone.record(effects, ok=True, in_transaction=False, affected=affected)
    assert inside.record(effects, ok=True, in_transaction=True, affected=affected) is None
    assert inside.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == at_once
    assert alone.empty and inside.empty


class Told:
    """Reports as CommitReports, whichever call they came by."""

    def __init__(self) -> None:
        self.reports: list[CommitReport] = []

    def enqueued(self, name: QueueName, first_id: int, count: int) -> None:
        ids = range(first_id, first_id + count) if first_id and 0 < count <= ADDED_MAX else ()
        counted = ((name, "enqueued", count),) if count else ()
        self.reports.append(CommitReport(frozenset({name}), counted=counted, added={name: ids} if ids else {}))

    def settled(self, settlement: Settlement, count: int) -> None:
        counted = ((settlement.queue, settlement.what, count),) if count else ()
        traced = (settlement,) if count else ()
        settled = {settlement.queue: settlement.ids}
        self.reports.append(CommitReport(settled=settled, counted=counted, traced=traced))

    def committed(self, report: CommitReport) -> None:
        self.reports.append(report)


ONE_OR_NONE = st.lists(st.tuples(NAMES, st.lists(st.integers(1, 9), min_size=1).map(tuple)), max_size=1).map(tuple)


@given(
    st.builds(
        Effects, SETS, ONE_OR_NONE, SETS, ONE_OR_NONE, SETS,
        tally=st.none() | st.tuples(NAMES, st.sampled_from(["acked", "enqueued", "deleted"])),
        reason=st.sampled_from(["", "why"]), several=st.booleans(), if_all=st.integers(0, 2),
    ),
    st.integers(0, ADDED_MAX + 1),
    st.sampled_from([0, 1, 700]),
)  # fmt: skip
def test_a_report_by_call_says_the_same(effects: Effects, affected: int, first_id: int) -> None:
    told = Told()
    if report_single(told, effects, affected, first_id):
        report = TransactionScope().record(effects, ok=True, in_transaction=False, affected=affected, first_id=first_id)
        assert told.reports == [report]


def test_most_statements_are_reported_by_call() -> None:
    told = Told()
    assert report_single(told, replace(INSERT, tally=(Q, "enqueued")), 2, 7)
    assert report_single(told, replace(ACK, tally=(Q, "acked"), if_all=2, reason="done"), 2, 0)
    assert told.reports == [
        CommitReport(frozenset({Q}), counted=((Q, "enqueued", 2),), added={Q: range(7, 9)}),
        CommitReport(
            settled={Q: (1, 2)}, counted=((Q, "acked", 2),), traced=(Settlement(Q, "acked", (1, 2), True, "done"),)
        ),
    ]
    for effects in (INSERT, ACK, ACK_WHERE, replace(ACK, tally=(Q, "acked"), if_all=3), Effects(catalog=True)):
        assert not report_single(told, effects, 2, 7)


def test_of_one_delivery_the_messages_are_known_if_all_of_them_were_changed() -> None:
    ack = Effects(settled=((Q, (1, 2)),), if_all=2)
    for affected, report in (
        (2, CommitReport(settled={Q: (1, 2)})),
        (1, CommitReport(uncertain=frozenset({Q}))),
        (0, CommitReport(uncertain=frozenset({Q}))),
    ):
        alone, inside = TransactionScope(), TransactionScope()
        assert alone.record(ack, ok=True, in_transaction=False, affected=affected) == report
        assert inside.record(ack, ok=True, in_transaction=True, affected=affected) is None
        assert inside.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == report


def test_nothing_is_reported_before_commit() -> None:
    scope = TransactionScope()
    assert scope.record(INSERT, ok=True, in_transaction=True) is None
    assert scope.record(ok=True, in_transaction=True) is None
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report == CommitReport(touched=frozenset({Q}))


def test_an_end_of_another_kind_is_seen_by_the_status_alone_and_proves_no_ack() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    # DDL commits; CALL, or EXECUTE of a prepared ROLLBACK, may have rolled back
    assert scope.record(ok=True, in_transaction=False) == ASK
    assert scope.empty


def test_rollback_settles_nothing_but_wakes_the_queue_whose_rows_were_locked() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.ROLLBACK, ok=True, in_transaction=False)
    assert report == CommitReport(touched=frozenset({Q}))


def test_rollback_to_a_savepoint_makes_acks_uncertain() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    scope.record(verb=TransactionVerb.ROLLBACK_TO, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report == ASK
    # and the mark does not outlive the transaction
    assert scope.record(ACK, ok=True, in_transaction=False) == CommitReport(settled={Q: (1, 2)})


def test_what_cannot_be_seen_into_makes_acks_uncertain() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    scope.record(verb=TransactionVerb.OPAQUE, ok=True, in_transaction=True)
    assert scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == ASK


def test_a_failed_statement_has_no_effect() -> None:
    scope = TransactionScope()
    assert scope.record(ACK, ok=False, in_transaction=False) is None
    assert scope.empty


def test_a_commit_with_unknown_outcome_asks_the_table() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    scope.record(INSERT, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=False, in_transaction=False)
    assert report == CommitReport(touched=frozenset({Q}), uncertain=frozenset({Q}))


def test_a_session_that_ends_in_mid_transaction_frees_its_locks() -> None:
    scope = TransactionScope()
    assert scope.abandon() is None
    scope.record(ACK_WHERE, ok=True, in_transaction=True)
    assert scope.abandon() == CommitReport(touched=frozenset({Q}))


def test_very_many_ids_are_not_remembered() -> None:
    scope = TransactionScope()
    scope.record(Effects(settled=((Q, tuple(range(20_000))),)), ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report == CommitReport(uncertain=frozenset({Q}))


def test_commit_and_chain_ends_the_transaction_though_another_is_open() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=True)
    assert report == CommitReport(settled={Q: (1, 2)})


def test_begin_commits_what_came_before() -> None:
    scope = TransactionScope()
    scope.record(INSERT, ok=True, in_transaction=True)
    assert scope.record(verb=TransactionVerb.BEGIN, ok=True, in_transaction=True) == CommitReport(
        touched=frozenset({Q})
    )


def test_after_an_error_in_a_transaction_the_queues_are_looked_at_and_nothing_is_certain() -> None:
    scope = TransactionScope()
    scope.record(ACK, ok=True, in_transaction=True)
    # the flags are those of before: an error has none, though a deadlock ended the transaction
    assert scope.record(ok=False, in_transaction=True) == CommitReport(touched=frozenset({Q}))
    assert not scope.empty
    assert scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == ASK
    assert scope.record(ACK, ok=True, in_transaction=False) == CommitReport(settled={Q: (1, 2)})


def test_of_several_statements_those_before_the_failed_one_count() -> None:
    scope = TransactionScope()
    several = Effects(touched=frozenset({Q}), several=True)
    assert scope.record(several, ok=False, in_transaction=False) == CommitReport(touched=frozenset({Q}))
    assert scope.record(several, ok=False, in_transaction=True) == CommitReport(touched=frozenset({Q}))
    assert scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == CommitReport(
        touched=frozenset({Q})
    )


COUNTED_INSERT = Effects(touched=frozenset({Q}), tally=(Q, "enqueued"))
COUNTED_ACK = Effects(settled=((Q, (1, 2)),), tally=(Q, "acked"))


def test_affected_rows_are_counted_at_the_commit() -> None:
    scope = TransactionScope()
    scope.record(COUNTED_INSERT, ok=True, in_transaction=True, affected=3)
    scope.record(COUNTED_ACK, ok=True, in_transaction=True, affected=2)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report is not None
    assert report.counted == ((Q, "enqueued", 3), (Q, "acked", 2))
    alone = scope.record(COUNTED_INSERT, ok=True, in_transaction=False, affected=5)
    assert alone is not None
    assert alone.counted == ((Q, "enqueued", 5),)


def test_what_may_have_been_undone_is_not_counted() -> None:
    for verb in (TransactionVerb.ROLLBACK_TO, TransactionVerb.OPAQUE):
        scope = TransactionScope()
        scope.record(COUNTED_INSERT, ok=True, in_transaction=True, affected=3)
        scope.record(verb=verb, ok=True, in_transaction=True)
        report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
        assert report is not None
        assert report.counted == ()
    scope.record(COUNTED_INSERT, ok=True, in_transaction=True, affected=3)
    rolled_back = scope.record(verb=TransactionVerb.ROLLBACK, ok=True, in_transaction=False)
    assert rolled_back is not None
    assert rolled_back.counted == ()


NACK = Effects(touched=frozenset({Q}), changed=((Q, (1, 2)),))
REJECT = Effects(settled=((Q, (3,)),), rejected=frozenset({Q}))


def test_given_up_leases_and_rejections_are_reported_at_commit() -> None:
    scope = TransactionScope()
    assert scope.record(NACK, ok=True, in_transaction=True) is None
    assert scope.record(REJECT, ok=True, in_transaction=True) is None
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    queue = frozenset({Q})
    assert report == CommitReport(touched=queue, settled={Q: (3,)}, changed={Q: (1, 2)}, rejected=queue)
    assert scope.empty


def test_given_up_leases_are_uncertain_where_the_end_is() -> None:
    scope = TransactionScope()
    scope.record(NACK, ok=True, in_transaction=True)
    scope.record(REJECT, ok=True, in_transaction=True)
    report = scope.record(ok=True, in_transaction=False)
    queue = frozenset({Q})
    assert report == CommitReport(touched=queue, uncertain=queue, rejected=queue)


def test_given_up_leases_that_are_rolled_back_are_none() -> None:
    scope = TransactionScope()
    scope.record(NACK, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.ROLLBACK, ok=True, in_transaction=False)
    assert report == CommitReport(touched=frozenset({Q}))


ACKED = Effects(settled=((Q, (1, 2)),), tally=(Q, "acked"))
NACKED = Effects(touched=frozenset({Q}), changed=((Q, (3,)),), tally=(Q, "nacked"), reason="late")


def traced_of(*steps: tuple[Effects, int], end: TransactionVerb = TransactionVerb.COMMIT) -> tuple[Settlement, ...]:
    scope = TransactionScope()
    for effects, affected in steps:
        scope.record(effects, ok=True, in_transaction=True, affected=affected)
    report = scope.record(verb=end, ok=True, in_transaction=False)
    assert report is not None
    return report.traced


def test_what_was_done_to_which_message_is_reported_at_commit() -> None:
    assert traced_of((ACKED, 2), (NACKED, 1)) == (
        Settlement(Q, "acked", (1, 2), True),
        Settlement(Q, "nacked", (3,), True, "late"),
    )
    assert traced_of((ACKED, 1)) == (Settlement(Q, "acked", (1, 2), False),)  # one of both, and it is not known which
    assert traced_of((ACKED, 0), (NACKED, 1)) == (Settlement(Q, "nacked", (3,), True, "late"),)
    assert traced_of((ACKED, 2), end=TransactionVerb.ROLLBACK) == ()


def test_what_may_have_been_undone_is_not_reported_of_messages() -> None:
    scope = TransactionScope()
    scope.record(ACKED, ok=True, in_transaction=True, affected=2)
    scope.record(verb=TransactionVerb.ROLLBACK_TO, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report is not None and report.traced == ()


def test_what_was_enqueued_is_told_once_it_is_committed() -> None:
    insert = Effects(touched=frozenset({Q}), tally=(Q, "enqueued"), numbered=True)
    told = Settlement(Q, "enqueued", (7, 8), True)
    scope = TransactionScope()
    report = scope.record(insert, ok=True, in_transaction=False, affected=2, enqueued=told)
    assert report is not None and report.traced == (told,)
    scope.record(insert, ok=True, in_transaction=True, affected=2, enqueued=told)
    report = scope.record(verb=TransactionVerb.ROLLBACK, ok=True, in_transaction=False)
    assert report is not None and report.traced == ()
    for spoils in (TransactionVerb.ROLLBACK_TO, TransactionVerb.OPAQUE):
        scope.record(insert, ok=True, in_transaction=True, affected=2, enqueued=told)
        scope.record(verb=spoils, ok=True, in_transaction=True)
        report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
        assert report is not None and report.traced == ()  # perhaps it was undone
    many = Settlement(Q, "enqueued", tuple(range(6000)), True)
    for _ in range(3):
        scope.record(insert, ok=True, in_transaction=True, affected=6000, enqueued=many)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report is not None and report.traced == (many,)


ADD = Effects(touched=frozenset({Q}), tally=(Q, "enqueued"))


def added_by(*steps: tuple[Effects, int, int]) -> dict[QueueName, list[int]]:
    """The ids that are told at the commit of statements: effects, affected rows, the first id."""
    scope = TransactionScope()
    for effects, affected, first_id in steps:
        scope.record(effects, ok=True, in_transaction=True, affected=affected, first_id=first_id)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report is not None
    return {queue: list(ids) for queue, ids in report.added.items()}


def test_the_ids_of_added_messages_are_told() -> None:
    scope = TransactionScope()
    report = scope.record(ADD, ok=True, in_transaction=False, affected=3, first_id=7)
    assert report is not None and list(report.added[Q]) == [7, 8, 9] and report.touched == {Q}
    assert added_by((ADD, 2, 7), (ADD, 1, 12), (ACK, 2, 0)) == {Q: [7, 8, 12]}


def test_ids_are_not_told_where_something_else_is_to_be_looked_for() -> None:
    replaced = Effects(touched=frozenset({Q}), uncertain=frozenset({Q}), tally=(Q, "enqueued"))
    retried = Effects(touched=frozenset({Q}), changed=((Q, (4,)),))
    for other in ((replaced, 2, 9), (retried, 1, 0), (INSERT, 1, 9), (ADD, 1, 0), (ADD, ADDED_MAX + 1, 9)):
        assert added_by(other) == added_by((ADD, 1, 7), other) == added_by(other, (ADD, 1, 7)) == {}
        alone = TransactionScope().record(other[0], ok=True, in_transaction=False, affected=other[1], first_id=other[2])
        assert alone is not None and not alone.added
    assert added_by(*((ADD, 1, number) for number in range(1, ADDED_MAX + 2))) == {}


def test_ids_of_what_may_have_been_undone_are_not_told() -> None:
    scope = TransactionScope()
    scope.record(ADD, ok=True, in_transaction=True, affected=1, first_id=7)
    scope.record(verb=TransactionVerb.ROLLBACK_TO, ok=True, in_transaction=True)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report is not None and not report.added and report.touched == {Q}
    scope.record(ADD, ok=True, in_transaction=True, affected=1, first_id=8)
    report = scope.record(verb=TransactionVerb.ROLLBACK, ok=True, in_transaction=False)
    assert report is not None and not report.added
    failed = TransactionScope().record(ADD, ok=False, in_transaction=False, affected=1, first_id=9)
    assert failed is None or not failed.added


NACK = Effects(touched=frozenset({Q}), changed=((Q, (1, 2)),), delay_ns=5)


def test_what_a_statement_alone_has_put_off_is_told_if_it_is_all_it_names() -> None:
    plain = CommitReport(touched=frozenset({Q}), changed={Q: (1, 2)})
    for affected, sent_at, told in ((2, 7.5, {Q: Postponement(7.5, 5)}), (1, 7.5, {}), (2, None, {})):
        report = TransactionScope().record(NACK, ok=True, in_transaction=False, affected=affected, sent_at=sent_at)
        assert report == replace(plain, postponed=told)
    uncertain = replace(NACK, uncertain=frozenset({Q}))
    report = TransactionScope().record(uncertain, ok=True, in_transaction=False, affected=2, sent_at=7.5)
    assert report is not None and not report.postponed


def test_in_a_transaction_nothing_is_put_off() -> None:
    """What it has put off fell due from the statement's time on, not from the commit's."""
    scope = TransactionScope()
    scope.record(NACK, ok=True, in_transaction=True, affected=2, sent_at=7.5)
    report = scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False)
    assert report == CommitReport(touched=frozenset({Q}), changed={Q: (1, 2)})


def test_what_is_released_falls_due_with_its_old_time() -> None:
    release = Effects(touched=frozenset({Q}), changed=((Q, (1, 2)),), tally=(Q, "released"))
    report = TransactionScope().record(release, ok=True, in_transaction=False, affected=2)
    assert report is not None and report.overdue == {Q}
    report = TransactionScope().record(replace(release, tally=(Q, "nacked")), ok=True, in_transaction=False, affected=2)
    assert report is not None and not report.overdue


def test_what_may_have_committed_and_begun_again_is_looked_for_at_once_and_at_the_end() -> None:
    """Of several statements in one text it is not known which the server has run."""
    scope = TransactionScope()
    scope.record(INSERT, ok=True, in_transaction=True)
    scope.record(ACK, ok=True, in_transaction=True)
    assert scope.record(verb=TransactionVerb.OPAQUE, ok=True, in_transaction=True) == ASK
    assert scope.record(verb=TransactionVerb.COMMIT, ok=True, in_transaction=False) == ASK
