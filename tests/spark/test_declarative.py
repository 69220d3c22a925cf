"""The declarative pipeline of the examples, run twice by `spark-pipelines`: each message once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT

SECONDS = 240
EXAMPLE = ROOT / "examples/pipeline/declarative"


def run(folder, url):
    program = Path(sys.executable).parent / "spark-pipelines"
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [str(program), *conf, "run", "--spec", str(folder / "spark-pipeline.yml")],
        cwd=folder, timeout=SECONDS, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={
            **os.environ, "QUEUEGATE_URL": url, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


@pytest.mark.timeout(2 * SECONDS + 30)
def test_two_runs(new_gate, tmp_path):
    pytest.importorskip("pyspark")
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/queuegate-declarative", f"file://{folder}/storage"))
    gate = new_gate().start()
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE QUEUE shop_orders (order_no VARCHAR(20), cents BIGINT)")
        cursor.execute("CREATE QUEUE shop_big_orders (order_no VARCHAR(20), cents BIGINT)")
        for first, count in ((0, 60), (60, 15)):
            rows = ", ".join(f"('A{n}', {n * 10000})" for n in range(first, first + count))
            cursor.execute(f"INSERT INTO shop_orders (order_no, cents) VALUES {rows}")
            run(folder, f"mysql://root@127.0.0.1:{gate.port}/{gate.database}")
            cursor.execute("SELECT order_no FROM shop_big_orders ORDER BY cents")
            assert [row[0] for row in cursor.fetchall()] == [f"A{n}" for n in range(10, first + count)]
            cursor.execute("SELECT state, COUNT(*) FROM shop_orders GROUP BY state")
            assert cursor.fetchall() == (("acked", first + count),)
