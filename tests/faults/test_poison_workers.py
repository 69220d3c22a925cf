"""A message that ends its worker's process costs one dead letter and no other message (docs/dead-letters.md).

The workers are processes, which `os._exit` ends in the handler, as a kill by the kernel does: nothing of them is closed
in order. A supervisor starts another in the place of each that died.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers import ROOT, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
POISON = 7
COUNT = 30
DEADLINE_SECONDS = 150.0
LONG = {"ack_wait": "'1h'", "min_backoff": "0", "max_backoff": "'2h'"}
BRIEF = {"ack_wait": "'2s'", "min_backoff": "0", "max_backoff": "'1s'"}


class Supervisor:
    """Keeps so many workers of the queue alive, and counts those that died."""

    def __init__(self, gate, folder, handler, *options):
        url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUEUEGATE_URL": url}
        self.command = [sys.executable, "-m", "queuegate_worker", f"worker_tasks:{handler}", "--queue", "q", *options]
        self.log_file = folder / "workers"
        self.running: list[subprocess.Popen[bytes]] = []
        self.died = 0

    @property
    def log(self):
        return self.log_file.read_text()

    def keep(self, count):
        for process in [one for one in self.running if one.poll() is not None]:
            assert process.returncode == 3, f"it ended otherwise than by the poison:\n{self.log}"
            self.running.remove(process)
            self.died += 1
        while len(self.running) < count:
            with self.log_file.open("ab") as log:
                self.running.append(
                    subprocess.Popen(self.command, cwd=HERE, env=self.environment, stdout=log, stderr=log)
                )

    def stop(self):
        for process in self.running:
            process.kill()
            process.wait(scaled(30))


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


def made(sql, name="q", poisons=(POISON,), **options):
    given = ", ".join(f"{name} = {value}" for name, value in options.items())
    sql(f"CREATE QUEUE {name} (n INT, deadly BOOL) WITH ({given})")
    rows = ", ".join(f"({n}, {n in poisons})" for n in range(1, COUNT + 1))
    sql(f"INSERT INTO {name} (n, deadly) VALUES {rows}")


def until_all_is_settled(sql, supervisor, workers, deaths_max):
    deadline = time.monotonic() + scaled(DEADLINE_SECONDS)
    while sql.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL"):
        supervisor.keep(workers)
        assert supervisor.died <= deaths_max, sql.rows("SELECT id, epoch, time_next FROM q WHERE time_acked IS NULL")
        assert time.monotonic() < deadline, sql.rows("SELECT id, epoch, time_next FROM q WHERE time_acked IS NULL")
        time.sleep(0.05)


def only_the_poison_died(sql, supervisor, poisons=(POISON,), attempts=3):
    wait_until(lambda: sql.value("SELECT COUNT(*) FROM q_dead") >= len(poisons), what="the dead letters")
    assert sql.rows("SELECT n, attempts FROM q_dead ORDER BY n") == [(n, attempts) for n in poisons]
    done = {int(line.split()[1]) for line in supervisor.log.splitlines() if line.startswith("handled ")}
    assert done == set(range(1, COUNT + 1)) - set(poisons)


@pytest.fixture
def supervised(gate, tmp_path):
    started = []

    def start(handler, *options):
        started.append(Supervisor(gate, tmp_path, handler, *options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.mark.parametrize("options", [("--concurrency", "4"), ("--concurrency", "2", "--batch", "5")], ids="-".join)
def test_one_worker_at_a_time(sql, supervised, options):
    handler = "poisoned_batch" if "--batch" in options else "poisoned"
    made(sql, max_attempts=3, **LONG)
    workers = supervised(handler, *options)
    until_all_is_settled(sql, workers, 1, deaths_max=4)
    only_the_poison_died(sql, workers)


def test_several_workers_and_several_poisons(sql, supervised):
    """Each death is of one poison; a message that is held beside one never counts."""
    made(sql, poisons=(POISON, 8, 21), max_attempts=2, **LONG)
    workers = supervised("poisoned", "--concurrency", "4")
    until_all_is_settled(sql, workers, 3, deaths_max=3 * 3)
    only_the_poison_died(sql, workers, (POISON, 8, 21), attempts=2)


def test_leases_that_only_time_ends(sql, supervised):
    """The worker's machine vanishes, so to say: what it held comes back as its leases run out."""
    made(sql, max_attempts=2, **BRIEF)
    workers = supervised("poisoned", "--concurrency", "4", "--lease", "time")
    until_all_is_settled(sql, workers, 1, deaths_max=3)
    only_the_poison_died(sql, workers, attempts=2)


def test_coroutines(sql, supervised):
    made(sql, max_attempts=3, **LONG)
    workers = supervised("poisoned_coroutine", "--concurrency", "4")
    until_all_is_settled(sql, workers, 1, deaths_max=4)
    only_the_poison_died(sql, workers)
