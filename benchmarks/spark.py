"""Spark at local[2]: a queue read in a batch and as a stream, beside Spark's own JDBC doing the nearest it can.

Batch: every column of every row, to Spark's sink `noop`. JDBC reads the same table in as many parts, by ranges of the
id. Stream: messages are claimed, read and acked, in micro-batches, until none is due. JDBC has no such thing; the
nearest is a loop that reads what is due, hands it on, and acks it with UPDATEs of PyMySQL, without any lease.

Rivals take turns; the ratio is taken within each turn. The session and each rival are warmed up first.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Measurement
from benchmarks.places import Place
from tests.servers import ROOT, Gate, Sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 4
REPEATS = 5
STREAM_REPEATS = 3
MICRO_BATCH = 20_000
_CHUNK = 5000  # rows of an INSERT, ids of an UPDATE
_DRIVER = "com.mysql.cj.jdbc.Driver"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
}
Turn = Callable[[], float]  # seconds


def measure(place: Place, rows: int, messages: int) -> list[Measurement]:
    """A batch read of so many rows, then a stream over so many messages."""
    with _session() as spark:
        return [*_batch(spark, place, rows), *_stream(spark, place, messages)]


@contextmanager
def _session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers are whatever `python3` is
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", _drivers())
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _drivers() -> str:
    """The JDBC drivers that the tests use, which import each other by their own folder."""
    sys.path.append(str(ROOT / "tests"))
    from toolchains import jdbc_drivers

    return ",".join(map(str, jdbc_drivers()))


# --- batch


def _batch(spark: SparkSession, place: Place, rows: int) -> list[Measurement]:
    _fill(place.gate, "batch_read", rows)
    rivals: dict[str, Turn] = {
        "batch read, JDBC through the gate": lambda: _noop(_jdbc_parts(spark, place.gate, place.gate.port, rows)),
        "batch read, queuegate": lambda: _noop(_queue(spark, place.gate, "batch_read")),
    }
    if place.server is not None:
        port = place.server.port
        rivals["batch read, JDBC directly"] = lambda: _noop(_jdbc_parts(spark, place.gate, port, rows))
    return _compared(place, rivals, REPEATS, rows)


def _noop(frame: DataFrame) -> float:
    started = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - started


def _queue(spark: SparkSession, gate: Gate, name: str) -> DataFrame:
    return spark.read.format("queuegate").options(**_options(gate, name), numPartitions=str(PARTS)).load()


def _options(gate: Gate, name: str) -> dict[str, str]:
    return {"port": str(gate.port), "user": "root", "database": gate.database, "queue": name}


def _jdbc_parts(spark: SparkSession, gate: Gate, port: int, rows: int) -> DataFrame:
    parts = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(rows), "numPartitions": str(PARTS)}
    return _jdbc(spark, gate, port, "batch_read", **parts)


def _jdbc(spark: SparkSession, gate: Gate, port: int, table: str, **more: str) -> DataFrame:
    url = f"jdbc:mysql://127.0.0.1:{port}/{gate.database}"
    return spark.read.format("jdbc").options(url=url, user="root", driver=_DRIVER, dbtable=table, **more).load()


# --- stream


def _stream(spark: SparkSession, place: Place, messages: int) -> list[Measurement]:
    rivals: dict[str, Turn] = {
        "stream, JDBC and UPDATEs in a loop": lambda: _by_hand(spark, place.gate, messages),
        "stream, queuegate": lambda: _by_queuegate(spark, place.gate, messages),
    }
    return _compared(place, rivals, STREAM_REPEATS, messages)


def _by_queuegate(spark: SparkSession, gate: Gate, messages: int) -> float:
    _fill(gate, "streamed", messages)
    stream = spark.readStream.format("queuegate").options(**_options(gate, "streamed"))
    frame = stream.option("maxMessagesPerTrigger", str(MICRO_BATCH)).load()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(600), "the query has not ended"
        seconds = time.monotonic() - started
    _all_acked(gate, messages)
    return seconds


def _by_hand(spark: SparkSession, gate: Gate, messages: int) -> float:
    _fill(gate, "streamed", messages)
    due = "time_acked IS NULL AND time_next <= UNIX_TIMESTAMP(NOW(6)) * 1000000000"
    batch = f"(SELECT * FROM streamed WHERE {due} ORDER BY priority, time_next LIMIT {MICRO_BATCH}) AS due"
    client = Sql(gate.connect())
    started = time.monotonic()
    while True:
        frame = _jdbc(spark, gate, gate.port, batch).persist()
        ids = [row.id for row in frame.select("id").collect()]
        if not ids:
            break
        frame.write.format("noop").mode("overwrite").save()
        frame.unpersist()
        for at in range(0, len(ids), _CHUNK):
            listed = ", ".join(map(str, ids[at : at + _CHUNK]))
            client(f"UPDATE streamed SET time_acked = {time.time_ns()}, time_next = NULL WHERE id IN ({listed})")
    seconds = time.monotonic() - started
    client.close()
    _all_acked(gate, messages)
    return seconds


def _all_acked(gate: Gate, messages: int) -> None:
    client = Sql(gate.connect())
    found = client.value("SELECT COUNT(*) FROM streamed WHERE time_acked IS NOT NULL")
    client.close()
    assert found == messages, f"{found} of {messages} messages are acked"


# --- both


def _compared(place: Place, rivals: dict[str, Turn], repeats: int, rows: int) -> list[Measurement]:
    """The first turn of each warms up; the first rival is what the others are compared with."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(repeats + 1):
        names = list(rivals)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[name].append(rivals[name]())
    measured = {name: found[1:] for name, found in seconds.items()}
    base = next(iter(measured.values()))
    return [_line(place, name, found, base, rows) for name, found in measured.items()]


def _line(place: Place, name: str, found: list[float], base: list[float], rows: int) -> Measurement:
    ratio = median(theirs / ours for ours, theirs in zip(found, base, strict=True))
    values = {"rows/s": round(rows / median(found)), "/ JDBC": round(ratio, 2)}
    return Measurement(name, place.backend, place.durability, MICRO_BATCH, rows, values)


def _fill(gate: Gate, name: str, rows: int) -> None:
    """A queue of messages of 200 bytes."""
    client: Any = Sql(gate.connect())
    client(f"DROP QUEUE IF EXISTS {name}")
    client(f"CREATE QUEUE {name} (message VARCHAR(300)) WITH (ack_wait = '10m')")
    for at in range(0, rows, _CHUNK):
        values = ", ".join(f"('{n:08d}{'x' * 192}')" for n in range(at, min(at + _CHUNK, rows)))
        client(f"INSERT INTO {name} (message) VALUES {values}")
    client.close()
