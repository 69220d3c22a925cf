"""The pages on tasks and on their tests: their programs and commands, word for word, on both backends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT, wait_until
from sessions import PORT, sessions
from slowness import scaled

from queuegate_worker import Worker, WorkerError
from queuegate_worker.testing import Server
from queuegate_worker.testing import server as testing_server

pytestmark = pytest.mark.long

TASKS, TESTS = ROOT / "docs" / "tasks.md", ROOT / "docs" / "test-your-tasks.md"


class Reader:
    """Who writes the files of a page into a folder, and types its commands there."""

    def __init__(self, gate, folder):
        self.gate, self.folder, self.running = gate, folder, None
        binary = folder / "bin"
        binary.mkdir()
        command = binary / "queuegate-work"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m queuegate_worker "$@"\n')
        command.chmod(0o755)
        (binary / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (binary / "python").chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{binary}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            "QUEUEGATE_URL": f"mysql://root@127.0.0.1:{gate.port}/{gate.database}" if gate else "",
            "PYTHONDONTWRITEBYTECODE": "1",  # a program that is changed within a second, to the same size
            "PYTEST_ADDOPTS": "-p queuegate_worker.testing.plugin -p no:cacheprovider",
        }

    def here(self, text):
        text = text.replace(str(PORT), str(self.gate.port)).replace(
            f"{self.gate.port}/main", f"{self.gate.port}/{self.gate.database}"
        )
        return text.replace('database="main"', f'database="{self.gate.database}"')

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run(self, *command):
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=scaled(60),
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, text):
        with (self.folder / "log").open("wb") as log:
            self.running = subprocess.Popen(
                ["bash", "-c", f"exec {text}"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    @property
    def log(self):
        return (self.folder / "log").read_text()

    def end(self):
        if self.running is not None:
            self.running.terminate()
            assert self.running.wait(scaled(60)) == 0, self.log


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


@pytest.fixture
def reader(gate, tmp_path):
    made = Reader(gate, tmp_path)
    yield made
    made.end()


def test_the_first_task(reader, sql):
    program, create, command, send = [each for each in sessions(TASKS) if each.language in ("python", "sh")][:4]
    reader.write("shop_tasks.py", program.text)
    reader.run("bash", "-e", "-c", reader.here(create.text))
    reader.environment["PYTHONUNBUFFERED"] = "1"
    reader.start(command.text.strip())
    reader.run(sys.executable, "-c", reader.here(send.text))
    wait_until(lambda: "Welcome, customer 7: here is a red pen." in reader.log, 60, f"the welcome: {reader.log}")
    later = "time_scheduled > (UNIX_TIMESTAMP() + 10) * 1000000000"
    assert sql.value(f"SELECT COUNT(*) FROM mails WHERE time_acked IS NULL AND {later}") == 1


def test_its_periodic_tasks(reader, sql):
    page = TASKS.read_text()
    (program,) = [each.text for each in sessions(TASKS) if "def nightly" in each.text]
    reader.write("shop_tasks.py", program)
    reader.run("queuegate-work", "shop_tasks", "--create")
    reader.write("shop_tasks.py", program.replace("0 2 * * *", "0 3 * * *"))
    reader.run("queuegate-work", "shop_tasks", "--create")
    rules = dict(sql.rows("SELECT schedule, rule FROM queuegate.schedules"))
    assert rules == {"shop_tasks.nightly": "CRON '0 3 * * *'", "shop_tasks.poll": "EVERY '15m'"}
    sql(re.search(r"`` (DROP SCHEDULE .*?) ``", page)[1])
    assert [row[0] for row in sql.rows("SHOW SCHEDULES")] == ["shop_tasks.nightly"]


def test_the_page_on_tests(tmp_path):
    outbox, command, server = [each for each in sessions(TESTS) if each.language in ("python", "sh")]
    first = next(each for each in sessions(TASKS) if each.language == "python")
    reader = Reader(None, tmp_path)
    reader.write("shop_tasks.py", first.text)
    reader.write("test_shop.py", outbox.text)
    reader.write("test_orders.py", server.text)
    assert "1 passed" in reader.run("bash", "-e", "-c", command.text)
    assert "1 passed" in reader.run("python", "-m", "pytest", "-q", "test_orders.py")


def test_the_server_of_tests_is_cleared_also_of_tables_that_refer_to_each_other():
    with Server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE customers (id INT PRIMARY KEY)")
            cursor.execute(
                "CREATE TABLE orders (id INT, customer INT, FOREIGN KEY (customer) REFERENCES customers (id))"
            )
            cursor.execute("INSERT INTO customers VALUES (1)")
            cursor.execute("INSERT INTO orders VALUES (1, 1)")
            cursor.execute("CREATE QUEUE mails (n INT)")
        server.clear()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            assert cursor.fetchall() == ()


def test_the_server_of_tests_heeds_nothing_of_the_shell_that_is_meant_for_another_server(tmp_path, monkeypatch):
    mine = tmp_path / "mine.db"
    for name, value in {
        "QUEUEGATE_BACKEND": f"sqlite:///{mine}",
        "QUEUEGATE_PASSWORD_APP": "x",
        "QUEUEGATE_PASSWORD_ROOT": "x",
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "MYSQL_PWD": "x",
    }.items():
        monkeypatch.setenv(name, value)
    with Server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE QUEUE mails (n INT)")
        Worker(server.url, "mails").run(lambda message: None, drain=True)
    assert not mine.exists()


def test_the_server_of_tests_serves_no_file_but_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUEGATE_BACKEND", f"sqlite:///{tmp_path}/mine.db")
    monkeypatch.setattr(testing_server, "environment", lambda: dict(os.environ))
    with pytest.raises(WorkerError, match="another database"):
        Server().__enter__()


def test_the_server_of_tests_ends_with_the_process_of_the_tests():
    program = """
import time
from queuegate_worker.testing import Server
with Server() as server:
    print(server._process.pid, server._folder, flush=True)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as tests:
        pid, folder = tests.stdout.readline().split()
        os.kill(tests.pid, signal.SIGKILL)
    wait_until(lambda: not Path(folder.decode()).exists(), 30, "the folder to be deleted")
    wait_until(lambda: _has_ended(int(pid)), 30, "the server to end")


def test_a_signal_ends_all_workers_of_one_loop(gate, sql):
    sql("CREATE QUEUE one (n INT)")
    sql("CREATE QUEUE other (n INT)")
    program = f"""
import asyncio, os, signal
from queuegate_worker import Worker

async def main():
    left = {{"one", "other"}}
    async def handle(message):
        left.discard(message.queue)
        if not left:
            os.kill(os.getpid(), signal.SIGTERM)
    url = "mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    await asyncio.gather(*(Worker(url, queue).serve(handle) for queue in ("one", "other")))

asyncio.run(main())
"""
    sql("INSERT INTO one (n) VALUES (1)")
    sql("INSERT INTO other (n) VALUES (1)")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=scaled(30), check=False)
    assert done.returncode == 0


def _has_ended(pid):
    """It may still be there as a zombie, until its new parent has asked for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
