"""A topic through two proxies on one MariaDB, with a ledger: 20 producers, three groups of two members, three broadcast
readers; a proxy is killed twice, the database restarted. Everybody has exactly what the topic holds.

`make test` runs a short form, `make ledger-topics` the long one: QUEUEGATE_LEDGER_KILLS=20 kills of either proxy, and
after each second one the database is restarted or killed. QUEUEGATE_LEDGER_SEED is for what clients do; when they do it
is the machine's.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from faults.leases import ACK_WAIT_NS, BACKOFF_NS
from faults.topic_clients import GROUPS, SETUP, Clients, Proxy, rejected
from faults.topic_ledger import (
    NEVER,
    Delivery,
    GroupRecord,
    Heard,
    Life,
    Outcome,
    Reader,
    Row,
    Transaction,
    judge_group,
    judge_order,
    judge_reader,
    judge_writes,
)
from servers import Gate, MariaDb, Sql, wait_until

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("QUEUEGATE_LEDGER_KILLS", "2"))
SEED = os.environ.get("QUEUEGATE_LEDGER_SEED", "12")
MESSAGES = 1200  # known to be committed between two faults
SECONDS = 300.0  # within which everything has to be delivered in the end


LEASE_NS = ACK_WAIT_NS + BACKOFF_NS


class Kept:
    """Two messages of one key, the second inserted once the first was committed; what each client saw is right."""

    def __init__(self) -> None:
        self.transactions = [
            Transaction({n: 7}, True, began_ns=began_ns, committed_ns=began_ns + 10, outcome=Outcome.COMMITTED)
            for n, began_ns in ((1, 10), (2, 30))
        ]
        self.table = {10: Row(1, 7, 0), 11: Row(2, 7, 0)}
        self.journal, self.dead = [1, 2], []
        self.record = GroupRecord()
        self.record.deliveries = [lease(10, 100), lease(11, 200)]
        self.record.sent_ns, self.record.acked_ns = {10: 150, 11: 250}, {10: 160, 11: 260}
        self.reader = Reader([[Heard(10, 1, 7, 100), Heard(11, 2, 7, 100)]], {10, 11})

    def judged(self) -> None:
        judge_writes(self.transactions, self.table, self.journal)
        judge_group(self.record, self.table, self.dead, set())
        judge_order(self.record, self.transactions)
        judge_reader(self.reader, self.table, self.transactions)

    def delivered(self, *deliveries: Delivery) -> None:
        self.record.deliveries += deliveries

    def half_committed(self, outcome: Outcome) -> None:
        self.transactions[0].rows[3] = 7
        self.transactions[0].outcome = outcome

    def broadcast(self, *places: int, at_ns: int = 100) -> None:
        heard = self.reader.streams[0]
        self.reader.streams = [[heard[place]._replace(received_ns=at_ns) for place in places]]


def lease(id_: int, begins_ns: int, epoch: int = 1, key: int = 7) -> Delivery:
    return Delivery(id_, id_ - 9, key, epoch, begins_ns + LEASE_NS, Life())


WRONG = {
    "committed, and 1 are there": lambda kept: kept.half_committed(Outcome.COMMITTED),
    "unknown, and 1 are there": lambda kept: kept.half_committed(Outcome.UNKNOWN),
    "rolled back, and 1 are there": lambda kept: setattr(kept.transactions[0], "outcome", Outcome.ROLLED_BACK),
    "rolled back to a savepoint, and there": lambda kept: setattr(kept.transactions[0], "undone", frozenset((2,))),
    "another row than was written": lambda kept: kept.table.update({11: Row(2, 8, 0)}),
    "a message was written twice": lambda kept: kept.table.update({12: Row(2, 7, 0)}),
    "written by nobody": lambda kept: kept.transactions.pop(),
    "without its business row": lambda kept: kept.journal.pop(),
    "committed and never delivered": lambda kept: kept.record.deliveries.pop(),
    "delivered and not in the topic": lambda kept: kept.delivered(lease(12, 300)),
    "delivered otherwise than written": lambda kept: kept.delivered(lease(10, 300 + LEASE_NS, 2, 8)),
    "each once": lambda kept: kept.dead.append(10),
    "gone without an ack": lambda kept: kept.record.sent_ns.pop(10),
    "leased before its time": lambda kept: kept.table.update({10: Row(1, 7, 101)}),
    "leased anew after its ack had returned": lambda kept: kept.delivered(lease(10, 161 + LEASE_NS, 2)),
    "one lease, two deliveries": lambda kept: kept.delivered(lease(10, 100)),
    "two leases at once": lambda kept: kept.delivered(lease(10, 120, 2)),
    "leased before one of its key": lambda kept: kept.record.sent_ns.update({10: 201}),
    "committed and never broadcast": lambda kept: kept.reader.had.remove(10),
    "broadcast twice in one stream": lambda kept: kept.broadcast(0, 1, 1),
    "broadcast before one": lambda kept: kept.broadcast(1, 0),
    "broadcast before its time": lambda kept: kept.table.update({10: Row(1, 7, 50)}) or kept.broadcast(0, at_ns=49),
}


def test_the_judge_lets_pass_what_is_right():
    kept = Kept()
    kept.delivered(lease(10, 100 + LEASE_NS, 2))
    kept.record.acked_ns[10] = 200 + LEASE_NS
    kept.record.freed_ns[11] = [210]
    kept.delivered(lease(11, 220, 2))
    kept.judged()


@pytest.mark.parametrize("verdict", WRONG)
def test_the_judge_sees_what_is_wrong(verdict):
    kept = Kept()
    WRONG[verdict](kept)
    with pytest.raises(AssertionError, match=verdict):
        kept.judged()


def faults(kills: int, random: Random) -> Iterator[str]:
    """The first proxy twice, then the database; from then on either."""
    for number in range(kills):
        yield random.choice(("first", "second")) if number > 1 else "first"
        if number % 2:
            yield "killed" if number % 4 == 3 else "restarted"


def make_trouble(what: str, clients: Clients, server: MariaDb) -> None:
    """A proxy that is killed stays away until messages were written through the other."""
    if what in ("first", "second"):
        proxy = clients.proxies[what == "second"]
        proxy.kill()
        wait_for_messages(clients, clients.written + MESSAGES // 4)
        proxy.gate.start()
        return
    if what == "killed":
        server.kill()
    else:
        server.stop()
    server.start()


def wait_for_messages(clients: Clients, count: int) -> None:
    what = f"{count} messages to be written and, but for some, had by each group"
    wait_until(lambda: clients.written >= count or clients.failures, SECONDS, what)


@pytest.mark.timeout(600 + 120 * KILLS)
def test_every_reader_of_a_topic_gets_exactly_what_it_holds(own_mariadb, tmp_path):
    print(f"QUEUEGATE_LEDGER_KILLS={KILLS} QUEUEGATE_LEDGER_SEED={SEED}")
    proxies = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        proxies.append(Proxy(Gate(own_mariadb.url(), tmp_path / name).start()))
    setup = Sql(proxies[0].gate.connect())
    for statement in SETUP:
        setup(statement)
    setup.close()
    troubles = list(faults(KILLS, Random(SEED)))
    clients = Clients(proxies, MESSAGES * (len(troubles) + 1), SEED)
    try:
        for number, what in enumerate(troubles, 1):
            wait_for_messages(clients, number * MESSAGES)
            make_trouble(what, clients, own_mariadb)
        clients.finish_writing(SECONDS)
        check = Sql(own_mariadb.connect(database="main"))
        wait_for_all(check, clients)
        write_last(clients, proxies[1].gate)
        wait_for_all(check, clients)
        assert_at_rest(check, proxies[1].gate)
    finally:
        clients.stop()
    judge(check, clients)
    check.close()


def write_last(clients: Clients, gate: Gate) -> None:
    """What is fed again would come before a message that is written now."""
    transaction = Transaction({NEVER - 1: None}, journaled=False)
    clients.transactions.append(transaction)
    client = Sql(gate.connect())
    client("INSERT INTO events (n) VALUES (%s)", NEVER - 1)
    transaction.committed()
    client.close()


def table_of(check: Sql) -> dict[int, Row]:
    return {id_: Row(*row) for id_, *row in check.rows("SELECT id, n, user_id, time_scheduled FROM events")}


def wait_for_all(check: Sql, clients: Clients) -> None:
    """Every group has done all that the topic holds, and every broadcast reader has it."""
    held = set(table_of(check))
    everybody: dict[str, GroupRecord | Reader] = {
        **clients.groups,
        **{f"reader {number}": reader for number, reader in enumerate(clients.readers)},
    }

    def complete() -> bool:
        had = all(one.had >= held for one in everybody.values())
        return had and not any(check.value(f"SELECT COUNT(*) FROM events_group_{group}") for group in GROUPS)

    try:
        wait_until(lambda: clients.failures or complete(), SECONDS, "everybody to have everything")
    except AssertionError as error:
        missing = {who: sorted(held - one.had)[:10] for who, one in everybody.items()}
        left = {
            group: check.rows(f"SELECT id, epoch, time_next FROM events_group_{group} LIMIT 10") for group in GROUPS
        }
        positions = check.rows("SELECT * FROM queuegate_positions")
        raise AssertionError(f"missing: {missing}; in the queues: {left}; positions: {positions}") from error
    assert clients.failures == []


def dead_letters(check: Sql, group: str) -> list[int]:
    table = f"events_group_{group}_dead"
    return check.column(f"SELECT id FROM {table}") if check.rows(f"SHOW TABLES LIKE '{table}'") else []


def assert_at_rest(check: Sql, gate: Gate) -> None:
    """Nothing is left to be read or waited for, and SHOW GROUPS says so."""
    client = Sql(gate.connect())

    wanted = ("unread", "ready", "waiting", "in_flight", "holes", "lost", "members", "problem", "dead")

    def shown() -> dict[str, tuple[object, ...]]:
        columns = ", ".join(wanted)
        return {name: tuple(row) for name, *row in client.rows(f"SELECT group_name, {columns} FROM queuegate.groups")}

    at_rest = {group: (0, 0, 0, 0, 0, 0, 2, None, len(dead_letters(check, group))) for group in GROUPS}
    with contextlib.suppress(AssertionError):
        wait_until(lambda: shown() == at_rest, SECONDS)
    assert shown() == at_rest
    client.close()


def judge(check: Sql, clients: Clients) -> None:
    table = table_of(check)
    assert len(table) >= clients.total
    judge_writes(clients.transactions, table, check.column("SELECT n FROM journal"))
    for group, record in clients.groups.items():
        wanted = {id_ for id_, row in table.items() if group == "billing" and rejected(row.n)}
        judge_group(record, table, dead_letters(check, group), wanted)
        assert len(record.deliveries) > len(table), "nothing was delivered again"
    assert sorted(check.column("SELECT id FROM done")) == sorted(table), "acked with its business row, each once"
    judge_order(clients.groups["ordered"], clients.transactions)
    for reader in clients.readers:
        judge_reader(reader, table, clients.transactions)
    outcomes = Counter(one.outcome.value for one in clients.transactions)
    again = {group: len(record.deliveries) - len(table) for group, record in clients.groups.items()}
    streams = [len(reader.streams) for reader in clients.readers]
    print(f"{len(table)} messages; {dict(outcomes)}; delivered again: {again}; streams of the readers: {streams}")
