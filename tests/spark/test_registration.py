"""How Spark comes to know the format: by itself where the distribution is installed, by register() from --py-files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from servers import ROOT, Sql

TIMEOUT = 280
PROGRAM = """
import sys
import spark_connector
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
{register}
options = dict(host="127.0.0.1", port="{port}", user="root", database="{database}", queue="{queue}", numPartitions="1")
rows = spark.read.format("queuegate").options(**options).load().collect()
print("from", spark_connector.__file__)
print("rows", [row.payload for row in rows])
"""


@pytest.fixture
def embedded(places):
    gate = places.gate("embedded")
    client = Sql(gate.connect())
    client("CREATE QUEUE registered (payload VARCHAR(20))")
    client("INSERT INTO registered (payload) VALUES ('a')")
    yield gate
    client("DROP QUEUE registered")
    client.close()


def program(gate, folder: Path, register: str = "") -> str:
    """A file with the program; returns its path."""
    file = folder / "read.py"
    file.write_text(PROGRAM.format(register=register, port=gate.port, database=gate.database, queue="registered"))
    return str(file)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": "", **more}


def run(command: list[str], folder: Path, **more: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_an_installed_distribution_is_found_by_itself(embedded, tmp_path):
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    source = ROOT / "packaging/queuegate-spark"
    run([*pip, "--disable-pip-version-check", "--target", str(target), str(source)], elsewhere)
    out = run([sys.executable, program(embedded, elsewhere)], elsewhere, PYTHONPATH=str(target))
    assert f"from {target}" in out and "rows ['a']" in out


def test_what_the_makefile_installs_is_found_in_any_folder(embedded, tmp_path):
    """`make spark` installs in place: what Spark looks through must show our module all the same."""
    told = json.loads(distribution("queuegate").read_text("direct_url.json") or "{}")
    if not told.get("dir_info", {}).get("editable"):
        pytest.skip("this environment has a copy installed, not the repository in place")
    out = run([sys.executable, program(embedded, tmp_path)], tmp_path)
    assert f"from {ROOT}" in out and "rows ['a']" in out


def test_files_that_come_with_the_job_are_registered(embedded, tmp_path):
    import pyspark

    archive = tmp_path / "queuegate.zip"
    with zipfile.ZipFile(archive, "w") as made:
        # mysql_client is a link, which zip -r follows and rglob does not.
        folders = [ROOT / "spark_connector", ROOT / "spark_connector" / "mysql_client"]
        for path in [ROOT / "pyspark_queuegate.py", *(path for folder in folders for path in folder.rglob("*.py"))]:
            made.write(path, path.relative_to(ROOT))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    register = "from pyspark_queuegate import DefaultSource; spark.dataSource.register(DefaultSource)"
    file = program(embedded, tmp_path, register)
    out = run([str(submit), "--master", "local[1]", "--py-files", str(archive), file], tmp_path)
    assert "queuegate.zip" in out and "rows ['a']" in out
