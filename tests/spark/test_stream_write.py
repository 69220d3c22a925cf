"""df.writeStream.format("queuegate"): each micro-batch becomes messages once, wherever a query fails."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

END_SECONDS = 90
BATCHES, ROWS = 3, 40


@pytest.fixture
def at(gate):
    """Where the gate is, as options."""
    return {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}


@pytest.fixture
def files(spark, tmp_path):
    """A stream of three files, one in a micro-batch; the same ones in it whenever it is repeated."""
    folder = tmp_path / "in"
    folder.mkdir()
    for batch in range(BATCHES):
        lines = (json.dumps({"n": batch * ROWS + row, "payload": f"m{row}"}) for row in range(ROWS))
        file = folder / f"{batch}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (batch, batch))  # Spark takes the oldest first
    return spark.readStream.schema("n BIGINT, payload STRING").option("maxFilesPerTrigger", 1).json(str(folder))


def failing(hook: Path) -> type:
    """The format under another name; it fails once behind its commit of the micro-batch whose number is in the file."""
    from spark_connector import datasource

    class Writer(datasource._StreamWriter):
        def commit(self, messages, batchId):
            super().commit(messages, batchId)
            if hook.exists() and hook.read_text() == str(batchId):
                hook.unlink()
                raise RuntimeError("failed behind the commit")

    class Failing(datasource.QueuegateDataSource):
        @classmethod
        def name(cls):
            return "queuegate_failing"

        def streamWriter(self, schema, overwrite):
            return Writer(super().streamWriter(schema, overwrite)._core)

    return Failing


@pytest.fixture
def hook(spark, tmp_path):
    from spark_connector.datasource import QueuegateDataSource

    path = tmp_path / "hook"
    spark.dataSource.register(QueuegateDataSource)
    spark.dataSource.register(failing(path))
    return path


def run(frame, queue, folder, at, form="queuegate", **options):
    """A run of a query until it has written what there is; its error, or None."""
    writer = frame.writeStream.format(form).options(**at, queue=queue, **options)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(END_SECONDS)
    except Exception as error:
        return str(error)
    return None


def numbers(sql, queue):
    return sorted(sql.column(f"SELECT n FROM {queue}"))


@pytest.mark.parametrize(
    "options",
    [{}, {"keyColumn": "n"}, {"writeMode": "direct", "keyColumn": "n"}],
    ids=["staged", "staged with a key", "direct with a key"],
)
def test_a_micro_batch_repeated_after_a_failure_is_written_once(files, at, sql, queue, tmp_path, hook, options):
    name = queue("n BIGINT" + (" UNIQUE" if options else "") + ", payload VARCHAR(20)")
    hook.write_text("1")
    assert "failed behind the commit" in run(files, name, tmp_path, at, "queuegate_failing", **options)
    assert numbers(sql, name) == list(range(2 * ROWS))
    assert run(files, name, tmp_path, at, "queuegate_failing", **options) is None
    assert numbers(sql, name) == list(range(BATCHES * ROWS))


def test_direct_without_a_key_writes_a_repeated_micro_batch_again(files, at, sql, queue, tmp_path, hook):
    name = queue("n BIGINT, payload VARCHAR(20)")
    hook.write_text("1")
    assert run(files, name, tmp_path, at, "queuegate_failing", writeMode="direct")
    assert run(files, name, tmp_path, at, "queuegate_failing", writeMode="direct") is None
    again = range(ROWS, 2 * ROWS)
    assert numbers(sql, name) == sorted([*range(BATCHES * ROWS), *again])


def test_a_micro_batch_whose_task_fails_shows_nothing(files, at, sql, queue, tmp_path, hook):
    name = queue("n BIGINT, payload VARCHAR(20)")
    last = BATCHES * ROWS - 1
    broken = files.selectExpr("n", f"if(n = {last}, raise_error('the last row')::string, payload) AS payload")
    assert "the last row" in run(broken, name, tmp_path, at)
    assert numbers(sql, name) == list(range((BATCHES - 1) * ROWS))
    assert run(files, name, tmp_path, at) is None
    assert numbers(sql, name) == list(range(BATCHES * ROWS))


def test_a_queue_is_not_overwritten(files, at, queue, tmp_path, hook):
    name = queue("n BIGINT, c BIGINT")
    counts = files.groupBy("n").count().withColumnRenamed("count", "c").writeStream.format("queuegate")
    counts = counts.options(**at, queue=name, checkpointLocation=str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(Exception, match="cannot be overwritten"):
        counts.outputMode("complete").start().awaitTermination(END_SECONDS)
    with pytest.raises(Exception, match="Update"):
        counts.outputMode("update").start().awaitTermination(END_SECONDS)


def test_two_queues_written_by_foreach_batch_each_once(files, at, sql, queue, tmp_path, hook):
    one, two = queue("n BIGINT, payload VARCHAR(20)"), queue("n BIGINT")
    hook.write_text("2")

    def write(frame, batch):
        options = {**at, "txnAppId": "two queues", "txnVersion": batch}
        frame.write.format("queuegate").options(**options, queue=one).mode("append").save()
        if hook.exists() and hook.read_text() == str(batch):
            hook.unlink()
            raise RuntimeError("failed between the queues")
        frame.select("n").write.format("queuegate").options(**options, queue=two).mode("append").save()

    def go():
        query = files.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.trigger(availableNow=True).start().awaitTermination(END_SECONDS)

    with pytest.raises(Exception, match="failed between the queues"):
        go()
    go()
    assert numbers(sql, one) == numbers(sql, two) == list(range(BATCHES * ROWS))
