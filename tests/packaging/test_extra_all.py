"""`pip install "queuegate[all]"` into an empty environment, by the lock file: every command of it answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from servers import ROOT, wait_until
from toolchains import missing

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FOLDERS = (ROOT, ROOT / "packaging/queuegate-worker", ROOT / "packaging/queuegate-celery")


class Environment:
    """A virtual environment, whose programs know nothing of this repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment = {**outside, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}

    def run(self, program: str, *arguments: str, cwd: Path | None = None, **environment: str) -> str:
        """What a program of it prints."""
        done = subprocess.run(
            [str(self.folder / "bin" / program), *arguments], cwd=cwd or self.folder,
            env={**self.environment, **environment}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What comes from the index has the hashes of the lock file; our own wheels are those that were just built."""
    wheels = tmp_path_factory.mktemp("wheels")
    for folder in FOLDERS:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels], cwd=folder, check=True
        )
    made = tmp_path_factory.mktemp("laptop")
    subprocess.run([sys.executable, "-m", "venv", made], check=True, timeout=120)
    install = [made / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lock = ["--require-hashes", "-r", str(ROOT / "packaging/requirements-all.txt")]
    done = subprocess.run([*install, *lock], capture_output=True, text=True, check=False, timeout=400)
    if done.returncode:
        missing(f"the packages of requirements-all.txt cannot be installed: {done.stderr.strip()[-300:]}")
    server = next(wheels.glob("queuegate-*"))
    others = [str(path) for path in wheels.iterdir() if path != server]
    wanted = [f"queuegate[all] @ {server.as_uri()}", *others]
    subprocess.run([*install, "--no-index", *wanted], check=True, timeout=120)  # the lock file has all the rest
    return Environment(made)


@pytest.fixture
def port(laptop: Environment, tmp_path: Path) -> Iterator[int]:
    """That of a server of it, with its console."""
    log = tmp_path / "log"
    command = [laptop.folder / "bin/queuegate", "serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, env=laptop.environment, stdout=output, stderr=output)
    listening = re.compile(r"listening on 127\.0\.0\.1:(\d+)")
    try:
        wait_until(lambda: process.poll() is not None or listening.search(log.read_text()), 60, "the server to start")
        match = listening.search(log.read_text())
        assert match, log.read_text()
        wait_until(lambda: "console on http://127.0.0.1:" in log.read_text(), 60, "the console")
        yield int(match[1])
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_nothing_is_missing(laptop):
    assert "No broken requirements" in laptop.run("python", "-m", "pip", "check", "--disable-pip-version-check")


def test_every_command_answers(laptop):
    version = laptop.run("queuegate", "--version").split()[1]
    assert laptop.run("queuegate-work", "--version").split()[-1] == version
    for command in ("serve", "console", "work", "status", "top", "bench"):
        assert laptop.run("queuegate", command, "--help").startswith("usage: queuegate")
    assert "_queuegate" in laptop.run("queuegate", "completion", "bash")
    assert laptop.run("celery", "--version").startswith("5.")


def test_the_server_the_worker_and_celery_work_together(laptop, port, tmp_path):
    url = f"root@127.0.0.1:{port}/main"
    (tmp_path / "jobs.py").write_text("def handle(message):\n    print('handled', message.n)\n")
    with pymysql.connect(host="127.0.0.1", port=port, user="root", database="main", autocommit=True) as client:
        client.cursor().execute("CREATE QUEUE q (n INT)")
        client.cursor().execute("INSERT INTO q (n) VALUES (7)")
    work = ["jobs:handle", "--queue", "q", "--drain"]
    assert laptop.run("queuegate-work", *work, cwd=tmp_path, QUEUEGATE_URL=f"mysql://{url}") == "handled 7\n"
    program = f"""
import queuegate_celery
from celery import Celery
app = Celery(broker="queuegate://{url}")
app.send_task("add", args=[1])
with app.connection_for_read() as broker:
    line = broker.SimpleQueue("celery")
    message = line.get(timeout=20)
    print(message.headers["task"])
    message.ack()
    line.close()
"""
    assert laptop.run("python", "-c", program, cwd=tmp_path) == "add\n"


def test_the_spark_connector_is_there_and_spark_itself_is_not(laptop):
    """It is in the server's wheel. Spark has 500 MB and needs Java, so it is another extra, as docs/install.md says."""
    program = """
from importlib.util import find_spec
print([name for name in ("spark_connector.datasource", "pyspark_queuegate", "pyspark") if find_spec(name)])
"""
    assert laptop.run("python", "-c", program) == "['spark_connector.datasource', 'pyspark_queuegate']\n"
