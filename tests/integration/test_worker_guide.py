"""The first worker of docs/worker.md and of the README, word for word, on both backends. Only the port differs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
from prometheus_client import REGISTRY
from servers import ROOT, wait_until
from sessions import PORT, sessions
from slowness import scaled

from queuegate_worker import Worker

pytestmark = pytest.mark.long

GUIDE = ROOT / "docs" / "worker.md"


class Started:
    """Processes of a test, in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def __call__(self, command, environment):
        log = self.folder / f"log{len(self.processes)}"
        path = os.pathsep.join([str(ROOT), *sys.path])
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, "PYTHONPATH": path, **environment},
                stdout=output, stderr=output,
            )  # fmt: skip
        process.log = log
        self.processes.append(process)
        return process


@pytest.fixture
def start(tmp_path):
    started = Started(tmp_path)
    yield started
    for process in started.processes:
        if process.poll() is None:
            process.kill()
        process.wait(scaled(30))


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


def here(text, gate):
    """A text of the document with the test's own port and database."""
    assert str(PORT) in text
    return text.replace(str(PORT), str(gate.port)).replace("/main", f"/{gate.database}")


def run(sql, text):
    for statement in filter(None, (part.strip() for part in text.split(";"))):
        sql(statement)


def shown(sql, text, what):
    """The rows of the SELECTs in a session, once they are what the document says."""
    queries = [part.strip() for part in text.split(";") if part.strip().startswith("SELECT")]

    def printed():
        tables = [re.search(r"FROM (\w+)", query)[1] for query in queries]
        if any(not sql.rows(f"SHOW TABLES LIKE '{table}'") for table in tables):
            return ""
        return "".join(" ".join(map(str, row)) + "\n" for query in queries for row in sorted(sql.rows(query)))

    wait_until(lambda: printed() == what, 30, f"{what!r}")


@pytest.mark.parametrize("module", ["queuegate_worker", "queuegate work"])
def test_the_first_worker_of_the_guide(gate, sql, start, tmp_path, module):
    """A worker with a retry, a dead letter, and a dead letter that is put back."""
    steps = sessions(GUIDE)[:6]
    assert [step.language for step in steps] == ["sql", "python", "sh", "sql", "sql", "python"]
    make, tasks, command, insert, correct, program = steps
    run(sql, make.text)
    (tmp_path / "tasks.py").write_text(tasks.text)
    setting, *words = shlex.split(here(command.text, gate))
    assert words[0] == "queuegate-work"
    name, _, value = setting.partition("=")
    worker = start([sys.executable, "-m", *module.split(), *words[1:]], {name: value})
    run(sql, "".join(f"{part};" for part in insert.text.split(";") if "INSERT" in part))
    printed = GUIDE.read_text().partition(insert.text)[2].partition("```text\n")[2].partition("```")[0]
    shown(sql, insert.text, printed)
    run(sql, "".join(f"{part};" for part in correct.text.split(";") if "SELECT" not in part))
    shown(sql, correct.text, correct.printed)
    worker.terminate()
    assert worker.wait(scaled(30)) == 0, worker.log.read_text()
    (tmp_path / "program.py").write_text(here(program.text, gate))
    other = start([sys.executable, "program.py"], {})
    run(sql, "INSERT INTO emails (recipient) VALUES ('eve@example.com')")
    wait_until(lambda: sql.rows("SELECT 1 FROM sent WHERE recipient = 'eve@example.com'"), 30, "Eve's")
    other.terminate()
    assert other.wait(30) == 0, other.log.read_text()


def test_the_programs_of_the_guide_can_be_compiled():
    for session in sessions(GUIDE):
        if session.language == "python":
            compile(session.text, "docs/worker.md", "exec")


def work_off(gate, hooks, handle):
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    Worker(address, "watched", hooks=hooks).run(handle, drain=True)


def program_with(word):
    return next(session.text for session in sessions(GUIDE) if word in session.text)


def test_the_metrics_of_the_guide(gate, sql):
    names = {}
    exec(program_with("prometheus_client").replace("start_http_server(9000)", "pass"), names)
    try:
        sql("CREATE QUEUE watched (n INT) WITH (max_attempts = 1)")
        sql("INSERT INTO watched (n) VALUES (1), (2), (0)")
        work_off(gate, names["Metrics"](), lambda message: 1 // message.n)
        samples = [sample for family in names["HANDLED"].collect() for sample in family.samples]
        counts = {s.labels["outcome"]: s.value for s in samples if s.name.endswith("_total")}
        assert counts == {"succeeded": 2, "failed": 1}
    finally:
        for metric in ("HANDLED", "SECONDS"):
            REGISTRY.unregister(names[metric])


def test_the_traces_of_the_guide(gate, sql, monkeypatch):
    """With a stand-in for OpenTelemetry, whose library is not among what the tests install."""
    spans = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name, context, attributes):
            spans.append((name, context, attributes))
            yield

    class Propagator:
        def extract(self, carrier):
            return carrier["traceparent"]

    for name in ("opentelemetry", "opentelemetry.trace", "opentelemetry.trace.propagation"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["opentelemetry"].trace = SimpleNamespace(get_tracer=lambda name: Tracer())
    last = ModuleType("opentelemetry.trace.propagation.tracecontext")
    last.TraceContextTextMapPropagator = Propagator
    monkeypatch.setitem(sys.modules, last.__name__, last)
    names = {}
    exec(program_with("opentelemetry"), names)
    sql("CREATE QUEUE watched (traceparent VARCHAR(55))")
    sql("INSERT INTO watched (traceparent) VALUES ('00-aa-bb-01')")
    work_off(gate, names["Traces"](), lambda message: None)
    assert spans == [("process watched", "00-aa-bb-01", {"messaging.message.id": "1"})]
