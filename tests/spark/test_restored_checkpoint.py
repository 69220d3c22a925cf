"""A checkpoint that was restored, copied, or lost files: the query is refused, or loses nothing, whatever its sink is.

Each run of a query has a micro-batch of ten messages. `out` is what its target has, as the payloads of messages.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streams import END_SECONDS, insert, reading

PER_RUN = 10


class Target:
    """Where a query writes; `start` begins a run of it, `out` reads what is there."""

    def __init__(self, start: Callable[[Any, Path], Any], out: Callable[[], list[str]]) -> None:
        self.start, self.out = start, out


@pytest.fixture(params=["queue", "parquet", "foreachBatch"])
def target(request, spark, gate, sql, queue, tmp_path) -> Target:
    other = queue("payload VARCHAR(20)")
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": other}
    files = str(tmp_path / "out")

    def into_queue(frame: Any, checkpoint: Path) -> Any:
        writer = frame.select("payload").writeStream.format("queuegate").options(**at)
        return writer.option("checkpointLocation", str(checkpoint))

    def into_files(frame: Any, checkpoint: Path) -> Any:
        return frame.writeStream.format("parquet").option("path", files).option("checkpointLocation", str(checkpoint))

    def by_function(frame: Any, checkpoint: Path) -> Any:
        def write(rows: Any, number: int) -> None:
            options = {**at, "txnAppId": "restored", "txnVersion": number}
            rows.select("payload").write.format("queuegate").options(**options).mode("append").save()

        return frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))

    if request.param == "parquet":
        return Target(into_files, lambda: [row.payload for row in spark.read.parquet(files).collect()])
    start = into_queue if request.param == "queue" else by_function
    return Target(start, lambda: list(sql.column(f"SELECT payload FROM {other}")))


class Runs:
    """Runs of one query, each after ten more messages."""

    def __init__(self, spark: Any, gate: Any, sql: Any, name: str, target: Target) -> None:
        self.sql, self.name, self.target, self.sent = sql, name, target, 0
        self._read = reading(spark, gate)

    def send(self) -> None:
        insert(self.sql, self.name, *range(self.sent, self.sent + PER_RUN))
        self.sent += PER_RUN

    def take(self, checkpoint: Path) -> str | None:
        """A run to the end of what there is; its error."""
        query = self.target.start(self._read(self.name), checkpoint).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_SECONDS), "the run did not end"
        except Exception as error:
            return str(error)
        finally:
            query.stop()
        return None

    def run(self, checkpoint: Path) -> str | None:
        self.send()
        return self.take(checkpoint)

    def runs_well(self, checkpoint: Path) -> None:
        error = self.run(checkpoint)
        assert error is None, error

    def nothing_is_lost(self) -> None:
        """Each message is in the target, or not acked."""
        waiting = self.sql.column(f"SELECT payload FROM {self.name} WHERE time_acked IS NULL")
        out = self.target.out()
        assert sorted({*map(str, out), *map(str, waiting)}, key=int) == list(map(str, range(self.sent)))
        assert len(out) == len(set(out))


@pytest.fixture
def runs(spark, gate, sql, queue, target) -> Runs:
    return Runs(spark, gate, sql, queue(), target)


def test_a_restored_checkpoint_is_refused(runs, tmp_path):
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    for number in range(4):
        runs.runs_well(checkpoint)
        if number == 1:
            shutil.copytree(checkpoint, backup)
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    for _ in range(2):
        error = runs.run(checkpoint)
        assert error is not None
        line = next(line for line in error.splitlines() if line.startswith("spark_connector.errors.CheckpointError"))
        assert "restored from a backup" in line and "new checkpointLocation" in line
        runs.nothing_is_lost()


@pytest.mark.parametrize("lost", ["offsets", "newest offsets", "commits", "newest commits", "all but the target"])
def test_a_checkpoint_without_some_of_its_files_is_refused_or_loses_nothing(runs, tmp_path, lost):
    checkpoint = tmp_path / "checkpoint"
    for _ in range(3):
        runs.runs_well(checkpoint)
    if lost == "all but the target":
        shutil.rmtree(checkpoint)
    else:
        folder = checkpoint / lost.split()[-1]
        files = sorted(folder.iterdir(), key=lambda file: file.name)
        for file in files if lost in ("offsets", "commits") else files[-2:]:
            if lost in ("offsets", "commits") or "2" in file.name:
                file.unlink()
    for _ in range(3):
        runs.run(checkpoint)
        runs.nothing_is_lost()
