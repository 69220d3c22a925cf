"""The pages on tasks and on their tests: their programs and commands, word for word, on both backends."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from servers import ROOT, wait_until
from sessions import PORT, sessions
from slowness import scaled

from queuegate_worker.testing import Server

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
