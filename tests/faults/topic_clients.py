"""Clients of a topic behind two proxies: producers, members of three consumer groups, broadcast readers.

They go on through everything, and write down what they did and saw (topic_ledger). `billing` acks by ids in autocommit,
and rejects some messages; `effects` acks in a transaction that writes a row of an ordinary table for each message;
`ordered` has an order_key.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pymysql
from faults.leases import ACK_WAIT_NS
from faults.topic_ledger import NEVER, Delivery, GroupRecord, Heard, Life, Outcome, Reader, Transaction
from servers import NS, Gate, Sql, Stream
from slowness import scaled

PRODUCERS, READERS, KEYS = 20, 3, 40
STRIDE = 1_000_000  # numbers of messages that one producer has
SLOW = 2  # producers whose transactions stay open for longer than a hole waits to be compared with them
SLOW_SECONDS = 6.5
AHEAD_SECONDS = 2.0  # by which a scheduled message is, at most
REJECTED_EVERY = 97
GROUPS = ("billing", "effects", "ordered")
AT_ONCE = 20  # messages that are settled together, at most
BEHIND_MAX = 2000  # messages that a group may be behind: producers wait then, so that all read where others write
DELIVERED_SECONDS = 10.0  # from the commit of a message until a broadcast reader has it, at most
WITH_THE_OTHERS = "SET SESSION wsrep_sync_wait = 7"  # reads, BEGIN, UPDATE, DELETE and INSERT
AWAY = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError, OSError)

SETUP = (
    "CREATE TOPIC events (n BIGINT NOT NULL, user_id BIGINT)",
    "CREATE TABLE journal (n BIGINT NOT NULL)",
    "CREATE TABLE done (id BIGINT NOT NULL)",
    *(
        f"CREATE GROUP {group} ON events START AT EARLIEST WITH (ack_wait = '{ACK_WAIT_NS // NS}s',"
        f" min_backoff = '10ms', max_backoff = '10ms', poll_interval = '2s'{options})"
        for group, options in zip(GROUPS, ("", "", ", order_key = 'user_id'"), strict=True)
    ),
)


@dataclass(eq=False)
class Proxy:
    """One of the two. `kills`: how often it was killed."""

    gate: Gate
    kills: int = 0

    def kill(self) -> None:
        self.kills += 1
        self.gate.kill()


class Clients:
    """All of them, each in a thread; they begin at once. `total`: messages that have to be known to be committed.
    `cluster`: the proxies are on nodes of one, so messages are numbered, and each client waits for what other nodes
    have committed."""

    def __init__(self, proxies: Sequence[Proxy], total: int, seed: str, *, cluster: bool = False) -> None:
        self.proxies, self.total, self.seed, self.cluster = proxies, total, seed, cluster
        self.over = threading.Event()
        self.written = 0  # messages that are known to be committed
        self._lock = threading.Lock()
        self.transactions: list[Transaction] = []
        self.groups = {group: GroupRecord() for group in GROUPS}
        self.readers = [Reader() for _ in range(READERS)]
        self.failures: list[BaseException] = []
        self._producers = [self._thread(Producer(self, number).run) for number in range(PRODUCERS)]
        self._receivers = [
            self._thread(Member(self, group, number).run) for group in GROUPS for number in range(len(proxies))
        ]
        self._receivers += [self._thread(Listener(self, number).run) for number in range(READERS)]

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def count(self, transaction: Transaction) -> None:
        """A producer has come to the end of it."""
        transaction.ended()
        if transaction.outcome is Outcome.COMMITTED:
            with self._lock:
                self.written += len(transaction.rows)

    @property
    def behind(self) -> int:
        """Messages that the slowest group has not had."""
        return self.written - min(len(record.had) for record in self.groups.values())

    def random(self, who: str) -> Random:
        return Random(f"{self.seed} {who}")

    def client(self, random: Random) -> Sql | None:
        """A client of either proxy, as soon as one of them answers."""
        while not self.over.is_set():
            for proxy in random.sample(self.proxies, len(self.proxies)):
                with contextlib.suppress(*AWAY):
                    client = Sql(proxy.gate.connect(connect_timeout=5, read_timeout=20))
                    if self.cluster:
                        client(WITH_THE_OTHERS)
                    return client
            self.over.wait(0.05)
        return None

    def finish_writing(self, seconds: float) -> None:
        """Wait for the producers."""
        deadline = time.monotonic() + scaled(seconds)
        for thread in self._producers:
            thread.join(max(0.0, deadline - time.monotonic()))
            assert not thread.is_alive(), "a producer never came to its end"
        assert self.failures == [], self.failures

    def stop(self) -> None:
        """End the proxies, and with them the streams."""
        self.over.set()
        for proxy in self.proxies:
            proxy.gate.stop()
        for thread in (*self._producers, *self._receivers):
            thread.join(scaled(60))
            assert not thread.is_alive(), "a client never came to its end"
        assert self.failures == [], self.failures


class Producer:
    """Transactions of random length, some of which are rolled back, as a whole or to a savepoint. One producer of four
    says its INSERT in autocommit. After an error it goes on with other messages, at whichever proxy answers."""

    def __init__(self, clients: Clients, number: int) -> None:
        self._clients = clients
        self._random = clients.random(f"producer {number}")
        self._numbers = itertools.count(number * STRIDE)
        self._autocommit = number % 4 == 3
        self._pause = SLOW_SECONDS if number < SLOW else 0.05

    def run(self) -> None:
        client = None
        while self._clients.written < self._clients.total and not self._clients.over.is_set():
            if self._clients.behind > BEHIND_MAX:
                self._clients.over.wait(0.05)
                continue
            if (client := client or self._clients.client(self._random)) is None:
                break
            transaction = self._planned()
            transaction.node = client.connection.port if self._clients.cluster else 0
            self._clients.transactions.append(transaction)
            try:
                self._carry_out(client, transaction)
            except AWAY:
                client.connection._force_close()
                client = None
            self._clients.count(transaction)
            self._clients.over.wait(self._random.random() * 0.05)
        if client is not None:
            client.connection._force_close()

    def _planned(self) -> Transaction:
        random = self._random
        rows = {next(self._numbers): random.choice((*range(KEYS), None)) for _ in range(random.choice((1, 2, 4, 15)))}
        undone = [next(self._numbers) for _ in range(2)] if not self._autocommit and random.random() < 0.1 else ()
        scheduled = frozenset(n for n in rows if random.random() < 0.03)
        return Transaction(rows, not self._autocommit, scheduled, frozenset(undone))

    def _carry_out(self, client: Sql, transaction: Transaction) -> None:
        numbers, random = list(transaction.rows), self._random
        if self._autocommit:
            transaction.commits()
            self._insert(client, transaction, numbers)
            transaction.committed()
            return
        client("BEGIN")
        for some in _pieces(numbers, random):
            self._insert(client, transaction, some)
            self._clients.over.wait(random.random() * 0.02)
        if transaction.undone:
            client("SAVEPOINT before_it")
            self._insert(client, transaction, sorted(transaction.undone))
            client("ROLLBACK TO before_it")
        client(f"INSERT INTO journal (n) VALUES {', '.join(f'({n})' for n in numbers)}")
        self._clients.over.wait(self._pause)
        if random.random() < 0.15:
            client("ROLLBACK")
            return
        transaction.commits()
        client("COMMIT")
        transaction.committed()

    def _insert(self, client: Sql, transaction: Transaction, numbers: Sequence[int]) -> None:
        client(
            f"INSERT INTO events (n, user_id, time_scheduled) VALUES {', '.join(self._values(transaction, numbers))}"
        )

    def _values(self, transaction: Transaction, numbers: Sequence[int]) -> Iterator[str]:
        for n in numbers:
            key = transaction.rows.get(n)
            ahead_ns = int(AHEAD_SECONDS * NS * self._random.random())
            at = time.time_ns() + ahead_ns if n in transaction.scheduled else "DEFAULT"
            yield f"({n}, {'NULL' if key is None else key}, {at})"


def _pieces(numbers: Sequence[int], random: Random) -> Iterator[Sequence[int]]:
    """For INSERTs of one to three rows."""
    start = 0
    while start < len(numbers):
        count = random.randint(1, 3)
        yield numbers[start : start + count]
        start += count


class Member:
    """A member of a group, at one proxy; it acks at either, and hangs up now and then."""

    def __init__(self, clients: Clients, group: str, number: int) -> None:
        self._clients, self._group, self._proxy = clients, group, clients.proxies[number]
        self._record = clients.groups[group]
        self._random = clients.random(f"member {group} {number}")
        self._client: Sql | None = None

    def run(self) -> None:
        sql = (
            f"SELECT id, n, user_id, epoch, time_next FROM STREAM events WITH (group = '{self._group}', prefetch = 200)"
        )
        while not self._clients.over.is_set():
            kills = self._proxy.kills
            try:
                stream = Stream(self._proxy.gate, sql)
            except AWAY:
                self._clients.over.wait(0.05)
                continue
            life = Life()
            self._follow(stream, life)
            stream.close()
            ended = self._clients.over.is_set() or self._proxy.kills > kills or life.closed_ns < NEVER
            assert ended, f"a stream of {self._group} did not outlive what its proxy did: {stream.error!r}"
        if self._client is not None:
            self._client.connection._force_close()

    def _follow(self, stream: Stream, life: Life) -> None:
        taken = 0
        while rows := stream.more(taken)[:AT_ONCE]:
            taken += len(rows)
            self._record.delivered([Delivery(*row, stream=life) for row in rows])
            try:
                self._settle([row[0] for row in rows if not self._rejects(row)])
                self._reject([row[0] for row in rows if self._rejects(row)])
            except AWAY:
                if self._client is not None:
                    self._client.connection._force_close()
                self._client = None
            if self._random.random() < 0.01:
                life.closed_ns = time.time_ns()
                return

    def _rejects(self, row: Sequence[int]) -> bool:
        return self._group == "billing" and rejected(row[1])

    def _say(self, sql: str) -> int:
        self._client = self._client or self._clients.client(self._random)
        if self._client is None:
            raise OSError("the test is over")
        return self._client(sql)

    def _reject(self, ids: Sequence[int]) -> None:
        if ids:
            self._record.frees(ids)
            self._say(f"REJECT events {_listed(ids)} GROUP {self._group}")

    def _settle(self, ids: Sequence[int]) -> None:
        chance = self._random.random()
        if not ids or chance < 0.01:
            return  # they come again when their leases have run out
        if chance < 0.05:
            self._record.frees(ids)
            verb = self._random.choice(("NACK", "RELEASE"))
            self._say(f"{verb} events {_listed(ids)} GROUP {self._group}")
        elif self._group == "effects" or chance < 0.06:
            self._ack_in_transaction(ids, commit=chance >= 0.06)
        else:
            sent_ns = time.time_ns()
            self._record.acks(ids, sent_ns)
            self._say(f"ACK events {_listed(ids)} GROUP {self._group}")
            self._record.acked(ids)

    def _ack_in_transaction(self, ids: Sequence[int], *, commit: bool) -> None:
        """With a business row for each message. Where not all of them are still the group's to ack, one by one."""
        sent_ns = time.time_ns()
        self._say("BEGIN")
        acked = self._say(f"ACK events {_listed(ids)} GROUP {self._group}")
        if acked < len(ids) and len(ids) > 1:
            self._say("ROLLBACK")
            for id_ in ids:
                self._ack_in_transaction([id_], commit=commit)
            return
        if acked and self._group == "effects":
            self._say(f"INSERT INTO done (id) VALUES {', '.join(f'({id_})' for id_ in ids)}")
        if not commit:
            self._say("ROLLBACK")
            return
        self._record.acks(ids, sent_ns)
        self._say("COMMIT")
        self._record.acked(ids)


def rejected(n: int) -> bool:
    """Whether the members of `billing` reject this message."""
    return n % REJECTED_EVERY == 0


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


class Listener:
    """A broadcast reader: one at each proxy, one at either. It goes on where it was, and leaves out what it had."""

    def __init__(self, clients: Clients, number: int) -> None:
        self._clients, self._reader = clients, clients.readers[number]
        self._proxies = clients.proxies[number : number + 1] or clients.proxies
        self._random = clients.random(f"reader {number}")

    def run(self) -> None:
        while not self._clients.over.is_set():
            proxy = self._random.choice(self._proxies)
            kills = proxy.kills
            try:
                stream = Stream(proxy.gate, self._sql())
            except AWAY:
                self._clients.over.wait(0.05)
                continue
            self._follow(stream)
            stream.close()
            ended = self._clients.over.is_set() or proxy.kills > kills
            assert ended, f"a broadcast did not outlive what its proxy did: {stream.error!r}"

    def _sql(self) -> str:
        """From where it was as the oldest transaction began of those whose messages it may not have."""
        back = max((one.seconds for one in list(self._clients.transactions)), default=0.0)
        behind_ns = int((back + AHEAD_SECONDS + DELIVERED_SECONDS) * NS)
        start = self._reader.last_offset(time.time_ns() - behind_ns) + 1
        offset = "queuegate_seq" if self._clients.cluster else "id"
        return f"SELECT id, n, user_id, {offset} FROM STREAM events WITH (mode = 'broadcast', start = {start})"

    def _follow(self, stream: Stream) -> None:
        heard: list[Heard] = []
        self._reader.streams.append(heard)
        while rows := stream.more(len(heard)):
            now = time.time_ns()
            heard += [Heard(id_, n, key, now, offset) for id_, n, key, offset in rows]
            self._reader.had.update(row[0] for row in rows)
