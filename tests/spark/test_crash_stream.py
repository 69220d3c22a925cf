"""The Spark driver is killed again and again, its JVM with it, while producers commit out of order: nothing is lost
and nothing comes twice into files as long as nobody else got the messages meanwhile.

`make test-spark` runs a short form; QUEUEGATE_CRASH_KILLS=6 (`make crash-spark`) the long one. The seed is printed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from conftest import SETTINGS
from servers import ROOT, Gate, Sql, Stream, wait_until

KILLS = int(os.environ.get("QUEUEGATE_CRASH_KILLS", "2"))
SEED = int(os.environ.get("QUEUEGATE_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
END_SECONDS = 600
pytestmark = pytest.mark.timeout(1200 + 240 * KILLS)


class Producers:
    """Three threads that insert in transactions of random length, so that ids are committed out of order."""

    def __init__(self, gate: Gate, queue: str, chance: random.Random) -> None:
        self._gate, self._queue = gate, queue
        self._end = threading.Event()
        self.sent: set[str] = set()
        self._lock = threading.Lock()
        seeds = [chance.random() for _ in range(3)]
        self._threads = [threading.Thread(target=self._run, args=one, daemon=True) for one in enumerate(seeds)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, seed: float) -> None:
        chance, count = random.Random(seed), 0
        while not self._end.is_set():
            names = [f"{number}-{count + place}" for place in range(chance.randint(1, 40))]
            count += len(names)
            self._end.wait(0.2 + 0.6 * chance.random())
            try:
                self._insert(names, chance)
            except pymysql.err.MySQLError:
                self._end.wait(0.2)  # the gate is down: whether it holds is asked of the table at the end

    def _insert(self, names: list[str], chance: random.Random) -> None:
        connection = self._gate.connect(autocommit=False)
        try:
            with connection.cursor() as cursor:
                for name in names:
                    cursor.execute(f"INSERT INTO {self._queue} (payload) VALUES (%s)", (name,))
                    if not self._gate.embedded and chance.random() < 0.05:
                        self._end.wait(chance.random() * 0.2)
            if chance.random() < 0.1:
                connection.rollback()
                return
            connection.commit()
            with self._lock:
                self.sent.update(names)
        finally:
            connection._force_close()

    def stop(self) -> set[str]:
        self._end.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        return self.sent


class Driver:
    """The Spark driver and its JVM; killed as one, and started again from the same checkpoint."""

    def __init__(self, folder: Path, source: dict[str, object]) -> None:
        self.out, self._log = folder / "out", folder / "driver.log"
        settings = {**SETTINGS, "spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "w")}
        self._given = {
            "settings": settings,
            "source": {name: str(value) for name, value in source.items()},
            "out": str(self.out),
            "checkpoint": str(folder / "checkpoint"),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **trigger: object) -> None:
        given = json.dumps({**self._given, "trigger": trigger or {"processingTime": "0 seconds"}})
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("crash_driver.py")), given],
                cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def committed(self) -> int:
        """Micro-batches whose files count."""
        log = self.out / "_spark_metadata"
        return len([one for one in log.glob("*") if not one.name.startswith(".")]) if log.exists() else 0

    def wait_for(self, batches: int) -> None:
        wait_until(lambda: self._runs() and self.committed() >= batches, END_SECONDS, f"micro-batch {batches}")

    def _runs(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self._log.read_text()[-5000:]
        return True

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and its Python workers at once."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
            self.process = None

    def finish(self) -> None:
        """One run to the end of what there is."""
        self.start(availableNow=True)
        assert self.process is not None
        assert self.process.wait(END_SECONDS) == 0, self._log.read_text()[-5000:]
        self.process = None

    def rows(self, spark: Any) -> Counter[str]:
        """What readers of the files see: those that the sink's log names, acked or not by Spark's own."""
        return Counter(row.payload for row in spark.read.parquet(str(self.out)).select("payload").collect())


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    print(f"QUEUEGATE_CRASH_SEED={SEED} QUEUEGATE_CRASH_KILLS={KILLS}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(gate: Gate, queue: str, **options: object) -> Driver:
        at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": queue}
        made.append(Driver(tmp_path, {**at, **options}))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def under_fire(driver: Driver, chance: random.Random, kill: Callable[[], None]) -> None:
    """As many kills as asked for, each at a random moment of a run that has got somewhere."""
    for _ in range(KILLS):
        before = driver.committed()
        driver.start()
        driver.wait_for(before + chance.randint(1, 3))
        threading.Event().wait(chance.random() * 0.7)  # anywhere in a micro-batch
        kill()


def acked(sql: Any, queue: str) -> bool:
    return not sql.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NULL")


def test_nothing_is_lost_and_nothing_comes_twice(spark, gate, queue, sql, driver, chance, capsys):
    name = queue()
    reader = driver(gate, name, maxMessagesPerTrigger=2000, numPartitions=2)
    producers = Producers(gate, name, chance)
    under_fire(reader, chance, reader.kill)
    sent = producers.stop()
    reader.finish()
    # What was claimed by a run that was killed before it logged its first offset waits for the end of its lease.
    sql(f"UPDATE {name} SET time_next = 0 WHERE time_acked IS NULL")
    reader.finish()
    rows = reader.rows(spark)
    told(capsys, f"{gate.backend.split(':')[0]}: {len(sent)} sent, {rows.total()} rows, {KILLS} kills")
    assert rows == Counter(sent)
    assert acked(sql, name)


def test_beside_a_receiver_and_away_for_longer_than_the_lease_nothing_is_lost(
    spark, gate, queue, sql, driver, chance, capsys
):
    """What both of them got is what Spark had leased when it was away for too long; nobody else gets anything twice."""
    name = queue()
    reader = driver(gate, name, maxMessagesPerTrigger=500, numPartitions=2, leaseSeconds=3)
    producers = Producers(gate, name, chance)
    with Stream(gate, f"SELECT payload, id FROM STREAM {name} WITH (ack_wait = '10m', prefetch = 20)") as other:
        settling = Settling(gate, name, other)

        def kill_and_stay_away() -> None:
            reader.kill()
            had = len(other.rows)
            wait_until(lambda: len(other.rows) > had and not leased(sql, name), 60, "Spark's leases to run out")

        under_fire(reader, chance, kill_and_stay_away)
        sent = producers.stop()
        reader.finish()
        wait_until(lambda: acked(sql, name), 120, "everything to be acked")
        settling.stop()
        others = Counter(payload for payload, _ in other.rows)
    rows = reader.rows(spark)
    both = set(rows) & set(others)
    told(
        capsys,
        f"{gate.backend.split(':')[0]}: {len(sent)} sent, {len(rows)} to Spark, {len(others)} to the receiver,"
        f" {len(both)} to both, {KILLS} kills",
    )
    assert set(rows) | set(others) == sent
    assert max(rows.values()) == max(others.values()) == 1


def leased(sql: Any, queue: str) -> int:
    """Messages that are held by a lease of Spark's, which is shorter than the receiver's."""
    now = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000000 AS SIGNED)"
    limits = f"time_next > {now} AND time_next < {now} + 60000000000"
    return int(sql.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NULL AND epoch > 0 AND {limits}"))


class Settling:
    """A receiver's other connection: acks what it has received."""

    def __init__(self, gate: Gate, queue: str, stream: Stream) -> None:
        self._gate, self._queue, self._stream = gate, queue, stream
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._gate.connect() as connection, connection.cursor() as cursor:
            settled = 0
            while not self._end.is_set():
                if fresh := self._stream.rows[settled:]:
                    cursor.execute(f"ACK {self._queue} {', '.join(str(id_) for _, id_ in fresh)}")
                    settled += len(fresh)
                self._end.wait(0.5)  # a slow one: Spark is to get its share

    def stop(self) -> None:
        self._end.set()
        self._thread.join(30)


def test_a_proxy_that_is_killed_in_the_middle_of_it_ends_no_query(spark, new_gate, driver, chance, capsys):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (payload VARCHAR(30))")
    sql.close()
    reader = driver(gate, "q", maxMessagesPerTrigger=200, numPartitions=2)
    producers = Producers(gate, "q", chance)
    reader.start()
    for _ in range(KILLS):
        reader.wait_for(reader.committed() + chance.randint(1, 3))
        threading.Event().wait(chance.random() * 0.7)
        gate.kill()
        threading.Event().wait(chance.random())
        gate.start()
    reader.wait_for(reader.committed() + 2)
    producers.stop()
    reader.kill()
    sql = Sql(gate.connect())
    sql("UPDATE q SET time_next = 0 WHERE time_acked IS NULL AND epoch = 0")
    reader.finish()
    sent = set(sql.column("SELECT payload FROM q"))  # what the killed proxy committed without an answer is among it
    rows = reader.rows(spark)
    told(capsys, f"{gate.backend.split(':')[0]}: {len(sent)} sent, {rows.total()} rows, {KILLS} kills of the proxy")
    assert producers.sent <= sent
    assert rows == Counter(sent)
    assert acked(sql, "q")
    sql.close()


def told(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n[crash, seed {SEED}] {text}")
