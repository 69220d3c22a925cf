"""The pages of the documentation, block by block in their order, on both backends, as a reader pastes them.

Each page of the site is run here, or by a test that the table below names. Only the port and the database differ.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from page_steps import ROOT, Step, fits, steps
from servers import Gate, Sql, free_port, wait_until
from sessions import PORT, client_binary, first, run_python, sessions
from slowness import scaled

from proxy.config import Config

DOCS = ROOT / "docs"
ELSEWHERE = {
    "celery.md": "tests/celery",
    "command-line.md": "tests/queuegate/test_command_line.py",
    "console.md": "tests/console",
    "dead-letters.md": "tests/contract/test_dead_letters.py",
    "django.md": "tests/django/test_django_page.py",
    "event-groups.md": "tests/contract/test_event_groups.py",
    "filters.md": "tests/contract/test_filters.py",
    "guide-topics.md": "tests/integration/test_guide_topics.py",
    "guide-web.md": "tests/integration/test_web_frameworks.py",
    "install.md": "tests/packaging",
    "jdbc.md": "tests/spark/test_jdbc_docs.py",
    "monitoring.md": "tests/integration/test_alerts.py",
    "operations.md": "tests/test_docs.py",
    "releases.md": "tests/packaging/test_release.py",
    "schedules.md": "tests/contract/test_schedules.py",
    "spark-jobs.md": "tests/spark/test_jobs_commands.py",
    "spark.md": "tests/spark",
    "sql.md": "tests/rewriter/test_sql_reference.py",
    "tasks.md": "tests/integration/test_task_pages.py",
    "test-your-tasks.md": "tests/integration/test_task_pages.py",
    "tools.md": "tests/tools",
    "topics.md": "tests/contract/test_topics.py",
    "unique-messages.md": "tests/contract/test_unique.py",
    "worker-go.md": "tests/integration/test_worker_pages.py",
    "worker-java.md": "tests/integration/test_worker_pages.py",
    "worker-node.md": "tests/integration/test_worker_pages.py",
    "worker-php.md": "tests/integration/test_worker_pages.py",
    "worker.md": "tests/integration/test_worker_guide.py",
}
"""Pages with blocks that other tests run, in whole or in the parts that can be run."""
INTERNALS = {"archive.md", "testing.md"}
"""What an archiving job sends, which tests/spark runs, and how to run the tests."""
WITH_BLOCKS = [page for page in sorted(DOCS.glob("*.md")) if steps(page)]
RUN_HERE = [page for page in WITH_BLOCKS if page.name not in ELSEWHERE and page.name not in INTERNALS]
FIRST_HOUR = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in ("start-sqlite", "start-server", "tutorial"))]
FIRST_HOUR.append(DOCS / "guide-topics.md")
"""What a newcomer reads one after the other, with one database: each page has names of its own for what it makes."""
READINGS = {page.stem: [page] for page in RUN_HERE if page not in FIRST_HOUR} | {"first-hour": FIRST_HOUR}
SECOND_PORT = 3308
"""Of a second proxy, in the pages."""


def test_every_page_with_blocks_is_run_somewhere():
    names = {page.name for page in WITH_BLOCKS}
    assert RUN_HERE
    assert set(ELSEWHERE) <= names, "a page is named that has no blocks"
    for place in ELSEWHERE.values():
        assert (ROOT / place).exists(), place


def test_what_is_only_shown_has_a_reason():
    for page in RUN_HERE:
        for step in steps(page):
            assert step.shown is None or len(step.shown) > 20, f"{page.name}: {step.text}"


class Reader:
    """Who pastes the blocks of a page into a terminal, a program or a configuration."""

    def __init__(self, gate: Gate, folder: Path) -> None:
        self.gate, self.folder, self.second_port = gate, folder, free_port()
        self.running: list[subprocess.Popen[bytes]] = []
        binary = client_binary("mariadb") or client_binary("mysql")
        assert binary is not None
        self.commands = folder / ".venv" / "bin"  # as `make run` makes it
        self.commands.mkdir(parents=True)
        for name in ("mysql", "mariadb"):
            self._command(name, f'exec {binary} --no-defaults "$@"')
        self._command("queuegate", f'exec {sys.executable} -m queuegate "$@"')
        self._command("queuegate-work", f'exec {sys.executable} -m queuegate_worker "$@"')
        self.environment = {
            **os.environ,
            "PATH": f"{self.commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
        }
        if not gate.embedded:
            self.environment["QUEUEGATE_BACKEND"] = gate.backend  # of a second proxy that a page starts

    def _command(self, name: str, text: str) -> None:
        file = self.commands / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def here(self, text: str) -> str:
        """The text with the port and the database of this test."""
        ports = {str(PORT): str(self.gate.port), str(SECOND_PORT): str(self.second_port)}
        text = re.sub("|".join(ports), lambda port: ports[port[0]], text)
        text = text.replace(f"{self.gate.port}/main", f"{self.gate.port}/{self.gate.database}")
        text = re.sub(r'(database(?:=|": )")main"', rf'\1{self.gate.database}"', text)
        return re.sub(r"(-u\w+(?: -p\w+)?(?: -t)?) main\b", rf"\1 {self.gate.database}", text)

    def paste(self, step: Step) -> None:
        """Run one block, and hold it to what the page says of it."""
        if step.shown is not None or (step.place is not None and (step.place == "embedded") != self.gate.embedded):
            return
        if step.language in ("yaml", "ini", "json"):
            self.read(step)
        elif step.background:
            self.start(step)
        elif step.until:
            wait_until(lambda: fits(self.run(step).stdout, step.printed or ""), 30, f"{step.text}\n{step.printed}")
        else:
            done = self.run(step)
            if step.error is not None:
                assert f"ERROR {step.error} " in done.stderr, f"{step.text}\n{done.stderr}"
            else:
                assert (done.returncode, done.stderr) == (0, ""), f"{step.text}\n{done.stdout}{done.stderr}"
            if step.printed is not None:
                assert fits(done.stdout, step.printed), f"{step.text}\nprinted\n{done.stdout}"

    def run(self, step: Step) -> subprocess.CompletedProcess[str]:
        command, given = self._how(step)
        return subprocess.run(
            command, input=given, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=90,
            check=False,
        )  # fmt: skip

    def _how(self, step: Step) -> tuple[list[str], str]:
        """A command line, and what is typed into it."""
        match step.language:
            case "sql":
                client = ["-h127.0.0.1", f"-P{self.gate.port}", "-uroot", "-t", self.gate.database]
                return [str(self.commands / "mariadb"), *client], step.text
            case "python":
                return [sys.executable, "-c", self.here(step.text)], ""
            case "sh":
                return ["bash", "-e", "-c", self.here(without_make(step.text))], "SELECT 1;"
            case _:
                raise AssertionError(f"nobody knows how to run {step.language}")

    def start(self, step: Step) -> None:
        """A program that goes on while the page does."""
        command, _ = self._how(step)
        with (self.folder / "log").open("ab") as log:
            self.running.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
            )

    def read(self, step: Step) -> None:
        """A configuration is one that queuegate takes."""
        data = yaml.safe_load(step.text)
        if step.language == "yaml":
            Config.model_validate(data)

    def leave(self) -> None:
        """End what runs; a worker ends in order."""
        for process in self.running:
            process.terminate()
        codes = [process.wait(scaled(30)) for process in self.running]
        assert codes == [0] * len(codes), (self.folder / "log").read_text()


def without_make(text: str) -> str:
    """The commands of a block; of `make x` it is enough that there is a target x."""
    kept = []
    for line in text.splitlines():
        if found := re.match(r"make ([a-z-]+)", line):
            assert re.search(rf"^{found[1]}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        else:
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize("reading", READINGS)
def test_the_blocks_of_a_page(new_gate, tmp_path, reading):
    gate = new_gate().start()
    folder = tmp_path / "reader"
    folder.mkdir()
    reader = Reader(gate, folder)
    try:
        for page in READINGS[reading]:
            for step in steps(page):
                if page.parent == DOCS or step.language == "sql":  # tests/integration/test_readme.py has the rest
                    reader.paste(step)
    finally:
        reader.leave()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_is_that_of_the_programs_zone(new_gate, monkeypatch, zone):
    """As guide-later.md sends a message at six in the evening, where the session has another zone."""
    gate = new_gate().start()
    client = Sql(gate.connect())
    client(first(DOCS / "guide-later.md", "sql"))
    monkeypatch.setenv("TZ", zone)
    done = run_python(gate, first(DOCS / "guide-later.md", "python").replace('"main"', f'"{gate.database}"'))
    assert done.stdout == "1\n", done.stderr
    due = client.value("SELECT time_scheduled FROM reminders") // 10**9
    assert datetime.fromtimestamp(due, ZoneInfo(zone)).strftime("%H:%M:%S") == "18:00:00"
    client.close()


def test_late_times_of_a_table_do_not_become_now(new_gate):
    """As guide-migrate-skip-locked.md moves its rows."""
    client = Sql(new_gate().start().connect())
    blocks = [each.text for each in sessions(DOCS / "guide-migrate-skip-locked.md") if each.language == "sql"]
    (move,) = (text for text in blocks if "UNIX_TIMESTAMP" in text)
    for statement in ";".join(blocks[:2]).split(";"):
        if statement.strip():
            client(statement)
    client("UPDATE jobs SET run_after = '9999-12-31 23:59:59' WHERE id = 2")
    client("UPDATE jobs SET run_after = '2039-06-01' WHERE id = 3")
    for statement in move.split(";"):
        if statement.strip():
            client(statement)
    assert (
        client.value("SELECT COUNT(*) FROM job_queue WHERE time_next > UNIX_TIMESTAMP('2037-01-01') * 1000000000") == 2
    )
    assert client.rows("SELECT id FROM STREAM job_queue LIMIT 3 NOWAIT") == []
    client.close()


def test_a_page_that_is_wrong_is_noticed(new_gate, tmp_path):
    """The runner itself: a wrong answer and a missing error are noticed."""
    folder = tmp_path / "reader"
    folder.mkdir()
    reader = Reader(new_gate().start(), folder)
    reader.paste(Step("sql", "SELECT 1 AS one;", "+-----+\n| one |\n+-----+\n|   1 |\n+-----+\n"))
    for wrong in (
        Step("sql", "SELECT 1 AS one;", "+-----+\n| one |\n+-----+\n|   2 |\n+-----+\n"),
        Step("sql", "SELECT 1;", error=1231),
        Step("sql", "SELECT nothing;"),
        Step("sh", "make nothing"),
        Step("python", "raise SystemExit(1)"),
    ):
        with pytest.raises(AssertionError):
            reader.paste(wrong)
    assert Sql(reader.gate.connect()).value("SELECT 1") == 1
