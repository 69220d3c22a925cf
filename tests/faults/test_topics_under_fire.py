"""A topic through two proxies on one MariaDB: one proxy is killed twice, the database restarted, writers roll back.

Three groups of two members each, three broadcast readers, writers with transactions of random length. At the end each
group, and each broadcast reader, has had exactly the messages that the topic holds.
"""

from __future__ import annotations

import threading
import time
from random import Random

import pymysql
from servers import Gate, Sql, Stream, wait_until

TOTAL = 3000
WRITERS = 6
GROUPS = ("billing", "audit", "search")
AWAY = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError, OSError)


class Fire:
    """The clients, and what they have seen."""

    def __init__(self, gates: list[Gate]) -> None:
        self.gates = gates
        self.stopping = threading.Event()
        self.acked_at: dict[tuple[str, int], float] = {}
        self.resent: list[tuple[str, int]] = []
        self.delivered = {group: set[int]() for group in GROUPS}
        self.broadcast = [set[int]() for _ in range(3)]
        self.written = 0
        self.failures: list[BaseException] = []
        self.threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(WRITERS)]
        self.receivers = [
            threading.Thread(target=self._guarded, args=(self._receive, group, gate))
            for group in GROUPS
            for gate in gates
        ]
        self.receivers += [
            threading.Thread(target=self._guarded, args=(self._listen, seen, gates[1])) for seen in self.broadcast
        ]
        for thread in (*self.threads, *self.receivers):
            thread.start()

    def _guarded(self, work, *arguments):
        try:
            work(*arguments)
        except BaseException as error:
            self.failures.append(error)

    def _write(self, seed: int) -> None:
        random = Random(seed)
        client: Sql | None = None
        while self.written < TOTAL and not self.stopping.is_set():
            try:
                client = client or Sql(random.choice(self.gates).connect(autocommit=False))
                count = random.randint(1, 8)
                for _ in range(count):
                    client(f"INSERT INTO events (user_id) VALUES ({random.randint(1, 9)})")
                time.sleep(random.random() / 100)
                if random.random() < 0.2:
                    client("ROLLBACK")
                else:
                    client("COMMIT")
                    self.written += count
            except AWAY:
                client = None  # whether the last transaction is committed the table will tell
                time.sleep(0.2)

    def _receive(self, group: str, gate: Gate) -> None:
        while not self.stopping.is_set():
            try:
                client = Sql(gate.connect())
                stream = Stream(gate, f"SELECT id FROM STREAM events WITH (group = '{group}', prefetch = 200)")
            except AWAY:
                time.sleep(0.2)
                continue
            try:
                self._settle(group, client, stream)
            except AWAY:
                pass
            finally:
                stream.close()
                client.connection._force_close()

    def _settle(self, group: str, client: Sql, stream: Stream) -> None:
        taken = 0
        while not self.stopping.is_set() and not stream.ended.is_set():
            rows, times = list(stream.rows), list(stream.times)
            for (id_,), at in zip(rows[taken:], times[taken:], strict=False):
                self.delivered[group].add(id_)
                if at > self.acked_at.get((group, id_), float("inf")):
                    self.resent.append((group, id_))
            ids = [row[0] for row in rows[taken:]]
            taken = len(rows)
            for start in range(0, len(ids), 20):
                some = ids[start : start + 20]
                client(f"ACK events {', '.join(map(str, some))} GROUP {group}")
                self.acked_at.update(((group, id_), time.time()) for id_ in some)
            if not ids:
                time.sleep(0.02)

    def _listen(self, seen: set[int], gate: Gate) -> None:
        with Stream(gate, "SELECT id FROM STREAM events WITH (mode = 'broadcast', start = 'earliest')") as stream:
            while not self.stopping.is_set():
                seen.update(row[0] for row in list(stream.rows)[len(seen) :])
                assert not stream.ended.is_set(), stream.error
                assert len(seen) <= len(stream.rows)
                time.sleep(0.05)
            assert len(stream.rows) == len(seen), "a message was broadcast twice"

    def reached(self, part: float) -> None:
        wait_until(lambda: self.written >= part * TOTAL or self.failures, 120, f"{part:.0%} to be written")

    def finish(self) -> None:
        for thread in self.threads:
            thread.join()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.receivers:
            thread.join(30)
        assert not self.failures, self.failures


def wait_until_done(check: Sql, fire: Fire, group: str, held: set[int]) -> None:
    """A group has had all that the topic holds, and acked it."""
    try:
        wait_until(
            lambda: check.value(f"SELECT COUNT(*) FROM events_group_{group}") == 0 and fire.delivered[group] >= held,
            180,
        )
    except AssertionError as error:
        missing = sorted(held - fire.delivered[group])
        rows = check.rows(f"SELECT id, epoch, time_next FROM events_group_{group} LIMIT 20")
        where = check.rows(f"SELECT * FROM queuegate_positions WHERE group_table = 'events_group_{group}'")
        raise AssertionError(f"{group} misses {missing[:20]}; in its queue {rows}; read {where}") from error


def test_every_reader_of_a_topic_gets_exactly_what_it_holds(own_mariadb, tmp_path):
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(own_mariadb.url(), tmp_path / name).start())
    setup = Sql(gates[0].connect())
    setup("CREATE TOPIC events (user_id BIGINT)")
    for group, options in zip(GROUPS, ("", ", max_concurrency = 500", ", order_key = 'user_id'"), strict=True):
        # On a busy machine leases run out before their acks; that must not double what the next delivery waits.
        waits = "ack_wait = '5s', max_backoff = '5s'"
        setup(f"CREATE GROUP {group} ON events START AT EARLIEST WITH ({waits}{options})")
    setup.close()
    fire = Fire(gates)
    try:
        for part in (0.2, 0.5):
            fire.reached(part)
            gates[0].kill()
            gates[0].start()
        fire.reached(0.7)
        own_mariadb.stop()
        own_mariadb.start()
        fire.finish()
        check = Sql(own_mariadb.connect(database="main"))
        held = set(check.column("SELECT id FROM events"))
        assert len(held) >= TOTAL
        for group in GROUPS:
            wait_until_done(check, fire, group, held)
        wait_until(lambda: all(seen == held for seen in fire.broadcast), 60, "the broadcast to be complete")
    finally:
        fire.stopping.set()
        fire.stop()
    assert fire.resent == []
    for group in GROUPS:
        assert fire.delivered[group] == held, group
    check.close()
    for gate in gates:
        gate.stop()
