"""The jobs as commands: docs/spark-jobs.md's examples as they stand, processes, spark-submit, errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jobs_at_hand import JOB_SECONDS, ack, archived, enqueue, options, run_job
from servers import ROOT, Sql, wait_until

from spark_connector.jobs.commands import main

PAGE = (ROOT / "docs/spark-jobs.md").read_text()
URL = "mysql://root@127.0.0.1:3307/main"
PROGRAM = ["python", "-m", "spark_connector.jobs"]


def examples(heading):
    """The shell commands of a section, as lists of words."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def preparation():
    block = re.search(r"What the examples below run against:\n\n```sql\n(.*?)```", PAGE, re.DOTALL)[1]
    return [statement.strip() for statement in block.split(";\n") if statement.strip()]


def test_the_pages_examples_do_what_it_says(spark, new_gate, tmp_path, monkeypatch, capsys):
    gate = new_gate().start()
    monkeypatch.chdir(tmp_path)
    sql = Sql(gate.connect())
    for statement in preparation():
        sql(statement)
    wait_until(lambda: sql.rows("SHOW TABLES LIKE 'orders_dead'"), what="the dead-letter queue")
    wait_until(lambda: sql.value("SELECT COUNT(*) FROM orders_dead") == 1, what="the dead letter")
    said = {}
    for job in ("archive", "report", "dead-letters", "replay", "enqueue"):
        for words in examples(job):
            if words[0] == "printf":
                Path("orders.csv").write_text(words[1].replace("\\n", "\n"))
                continue
            assert words[:3] == PROGRAM
            here = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
            given = [word.replace(URL, here).replace("data/", f"{tmp_path}/data/") for word in words[3:]]
            given = [f"{tmp_path}/orders.csv" if word == "orders.csv" else word for word in given]  # the JVM stays put
            assert main(given) == 0, (given, capsys.readouterr().err)
            said.setdefault(job, []).append(capsys.readouterr().out)
    assert said["archive"][0].startswith("2 messages of orders archived to")
    assert archived(spark, tmp_path / "data/archive/orders") == [1, 2]
    assert "orders" in said["report"][0]
    assert "<svg" in Path("orders.html").read_text()
    assert json.loads(said["report"][2])["queue"]["states"]["acked"] == 2
    assert "REDRIVE `orders_dead` WHERE last_error = 'HTTP 503 from the shop'" in said["dead-letters"][0]
    assert spark.read.parquet(str(tmp_path / "data/dead-orders")).count() == 1
    assert "2 messages would be enqueued in orders_again" in said["replay"][0]
    assert said["replay"][1] == "1 messages enqueued in orders_again\n"
    assert sql.rows("SELECT customer FROM orders_again") == [("ann",)]
    assert said["enqueue"] == ["2 messages enqueued in orders\n"]
    assert sql.column("SELECT customer FROM orders WHERE time_acked IS NULL ORDER BY id") == ["dan", "eve"]
    sql.close()


def test_report_as_files(spark, gate, sql, queue, tmp_path, capsys):
    name = queue("payload VARCHAR(40)")
    enqueue(sql, name, 5)
    to = ["report", "--url", options(gate, name)["url"], "--queue", name]
    assert main([*to, "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "section,queue,name,at,value"
    assert any(line.startswith(f"states,{name},ready,") and line.endswith(",5.0") for line in lines)
    assert main([*to, "--format", "parquet", "--output", str(tmp_path / "r.parquet")]) == 0
    assert spark.read.parquet(str(tmp_path / "r.parquet")).where("name = 'ready' AND value = 5").count() >= 1
    assert main([*to, "--output", str(tmp_path / "none" / "r.txt")]) == 1
    assert "cannot write" in capsys.readouterr().err.splitlines()[-1]


def one_line(job):
    """What a job that failed has said: nothing on stdout, one line on stderr, but for what says how far it had come."""
    assert job.returncode == 1, job.stderr
    assert job.stdout == ""
    *before, last = job.stderr.splitlines()
    assert all(re.match(r"(WARNING: Using incubator modules|[a-z ,]+: )", line) for line in before), job.stderr
    assert "\tat " not in job.stderr
    assert "Traceback" not in job.stderr
    return last


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"PAR1 not at all", "is not a Parquet file"), (None, "does not exist")],
    ids=["corrupt", "missing"],
)
def test_a_bad_file_is_one_line_and_nothing_half_done(spark, gate, sql, queue, tmp_path, content, words):
    name = queue("payload VARCHAR(40)")
    path = tmp_path / "x.parquet"
    if content is not None:
        path.write_bytes(content)
    job = run_job("enqueue", "--url", options(gate, name)["url"], "--queue", name, "--input", str(path))
    assert words in one_line(job)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_rows_that_do_not_fit_are_one_line(spark, gate, sql, queue, tmp_path):
    name = queue("payload INT")
    (tmp_path / "x.csv").write_text("payload\nabc\n")
    where = ["--queue", name, "--input", str(tmp_path / "x.csv"), "--format", "csv", "--option", "header=true"]
    job = run_job("enqueue", "--url", options(gate, name)["url"], *where)
    assert "payload" in one_line(job)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_before_spark_starts(gate, queue, tmp_path):
    """What is wrong with queue, account or proxy is said at once."""
    url = options(gate, "x")["url"]
    none = run_job("archive", "--url", url, "--queue", "none", "--path", str(tmp_path), timeout=60)
    assert none.stderr.startswith("archive: there is no queue 'none'")
    (tmp_path / "secret").write_text("wrong")
    account = ["--password-file", str(tmp_path / "secret")]
    wrong = run_job("archive", "--url", url, *account, "--queue", "none", "--path", str(tmp_path), timeout=60)
    assert "is not let in by" in wrong.stderr
    assert [job.returncode for job in (none, wrong)] == [1, 1]
    assert [job.stderr.count("\n") for job in (none, wrong)] == [1, 1]


def test_spark_submit(spark, gate, sql, queue, tmp_path):
    """As docs/spark-jobs.md says, with the package at hand by PYTHONPATH."""
    name = queue("payload VARCHAR(40)", archive=1)
    enqueue(sql, name, 30)
    ack(sql, name, range(1, 21))
    submit = Path(sys.executable).parent / "spark-submit"
    file = ROOT / "spark_connector/jobs/__main__.py"
    job = ["archive", "--url", options(gate, name)["url"], "--queue", name, "--path", str(tmp_path / "a")]
    done = subprocess.run(
        [str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(file), *job, "--margin", "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}, cwd=tmp_path,
        timeout=JOB_SECONDS, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    said = done.stdout.splitlines()[-1]  # spark-submit sends its program's stderr there too
    assert said.startswith(f"20 messages of {name} archived to")
    assert archived(spark, tmp_path / "a") == list(range(1, 21))
