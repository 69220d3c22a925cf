"""Worker processes of a Django project: killed, stopped, several of them, and where the database is no proxy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest
from django_environments import BACKPORT, PROJECT, python_with, variables
from servers import wait_until
from slowness import scaled

pytestmark = pytest.mark.long
SHOP = "from shop import tasks; from shop.models import Order; from queuegate_django.tasks_api import task_backends\n"


class Project:
    """The Django project at one gate."""

    def __init__(self, gate, folder, **environment):
        self.folder, self.workers = folder, []
        self.environment = variables(gate, **environment)
        self.python = python_with(BACKPORT)

    def manage(self, *arguments, status=0):
        done = subprocess.run(
            [self.python, PROJECT / "manage.py", *arguments], env=self.environment, capture_output=True, text=True,
            timeout=scaled(100), check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run(self, program):
        """What a program in the project prints, as JSON."""
        return json.loads(self.manage("shell", "-c", SHOP + program).splitlines()[-1])

    def result(self, result_id):
        program = (
            f"import json; r = task_backends['default'].get_result({result_id!r});"
            "print(json.dumps([r.status, r.worker_ids, [e.exception_class_path for e in r.errors]]))"
        )
        return self.run(program)

    def worker(self, *arguments):
        log = self.folder / f"log{len(self.workers)}"
        with log.open("wb") as output:
            command = [self.python, PROJECT / "manage.py", "queuegate_worker", *arguments]
            process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        process.log = log
        self.workers.append(process)
        return process

    def runs(self, name, pid):
        """Wait until that process runs the task."""
        marked = self.folder / f"{name}.{pid}"
        wait_until(marked.exists, 60, f"{name} to run in {pid}")

    def stop(self):
        for process in self.workers:
            if process.poll() is None:
                process.kill()
            process.wait(scaled(30))


@pytest.fixture
def project(new_gate, tmp_path):
    made = Project(new_gate().start(), tmp_path)
    made.manage("migrate")
    yield made
    made.stop()


def enqueue_waiting(project, name):
    return project.run(f"import json; print(json.dumps(tasks.wait_for.enqueue({str(project.folder)!r}, {name!r}).id))")


def orders(project):
    return project.run("import json; print(json.dumps(sorted(Order.objects.values_list('customer', flat=True))))")


def test_a_killed_workers_task_runs_again_and_commits_once(project):
    result = enqueue_waiting(project, "job")
    first = project.worker("--worker-id", "first")
    project.runs("job", first.pid)
    os.kill(first.pid, signal.SIGKILL)
    second = project.worker("--worker-id", "second")
    project.runs("job", second.pid)
    assert orders(project) == []
    (project.folder / "job.go").write_text("")
    wait_until(lambda: project.result(result)[0] == "SUCCESSFUL", 60, "the result")
    _, workers, errors = project.result(result)
    assert (workers[-1], errors, len(workers)) == ("second", [], 2)
    assert orders(project) == ["job"]
    second.terminate()
    assert second.wait(scaled(40)) == 0, second.log.read_text()


def test_a_task_that_kills_its_workers_ends_as_a_dead_letter(project):
    project.manage("shell", "-c", "from django.db import connection\nconnection.cursor().execute("
                   "\"ALTER QUEUE tasks_default SET (max_attempts = 2)\")")  # fmt: skip
    result = enqueue_waiting(project, "poison")
    for _ in range(4):
        worker = project.worker()
        ended = wait_until(
            lambda worker=worker: "FAILED" if project.result(result)[0] == "FAILED"
            else (project.folder / f"poison.{worker.pid}").exists() and "runs", 60, "the task",
        )  # fmt: skip
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(scaled(30))
        if ended == "FAILED":
            break
    status, workers, errors = project.result(result)
    assert (status, errors) == ("FAILED", ["queuegate_django.results.TaskRejected"])
    assert len(workers) == 2 and orders(project) == []


def test_a_killed_worker_uses_no_attempt_of_the_task(project):
    project.environment["QG_OPTIONS"] = '{"max_attempts": 2}'
    marker = str(project.folder / "died")
    result = project.run(f"import json; print(json.dumps(tasks.die_once_and_fail.enqueue({marker!r}).id))")
    assert project.worker().wait(scaled(60)) == 9
    project.worker()
    wait_until(lambda: project.result(result)[0] == "FAILED", 60, "the last attempt")
    _, workers, errors = project.result(result)
    assert (len(workers), errors) == (3, ["builtins.ValueError"] * 2)


def test_the_queues_own_max_attempts_ends_a_task(project):
    project.environment["QG_OPTIONS"] = '{"max_attempts": 3}'
    project.manage("shell", "-c", "from django.db import connection\nconnection.cursor().execute("
                   "\"ALTER QUEUE tasks_default SET (max_attempts = 1)\")")  # fmt: skip
    result = project.run("import json; print(json.dumps(tasks.book_and_fail.enqueue('Ann').id))")
    assert "state=FAILED" in project.manage("queuegate_worker", "--drain")
    stored = (
        "import json; from queuegate_django.models import StoredResult as S; print(json.dumps(S.objects.get().status))"
    )
    assert project.run(stored) == "FAILED"
    assert project.result(result)[2] == ["builtins.ValueError"]


def test_sigterm_lets_the_running_task_end(project):
    result = enqueue_waiting(project, "last")
    worker = project.worker()
    project.runs("last", worker.pid)
    worker.terminate()
    (project.folder / "last.go").write_text("")
    assert worker.wait(scaled(40)) == 0, worker.log.read_text()
    assert project.result(result)[0] == "SUCCESSFUL"
    assert "state=SUCCESSFUL" in worker.log.read_text()


def test_a_worker_ends_after_its_grace_time(project):
    project.run(f"import json; print(json.dumps(tasks.wait_in_coroutine.enqueue({str(project.folder)!r}, 'long').id))")
    worker = project.worker("--grace", "0.5")
    project.runs("long", worker.pid)
    worker.terminate()
    assert worker.wait(scaled(40)) == 1
    assert "the grace time is over" in worker.log.read_text()


def test_several_workers_run_each_task_once(project):
    started = [project.worker("--queue", "default", "--concurrency", "8") for _ in range(2)]
    program = """
import json
from django.db import transaction
for number in range(300):
    if number % 3:
        tasks.book.enqueue(f"{number:03}")
    else:
        with transaction.atomic():
            tasks.book.enqueue(f"{number:03}")
            if number % 2:
                transaction.set_rollback(True)
print(json.dumps(1))
"""
    project.run(program)
    expected = [f"{number:03}" for number in range(300) if number % 6 != 3]
    wait_until(lambda: len(orders(project)) >= len(expected), 60, "all orders")
    for worker in started:
        worker.terminate()
        assert worker.wait(scaled(40)) == 0, worker.log.read_text()
    assert orders(project) == expected
    count = "import json; from queuegate_django.models import StoredResult as S; print(json.dumps(S.objects.count()))"
    assert project.run(count) == len(expected)


def test_the_commands_say_what_is_wrong(project):
    assert "'other' is not in QUEUES" in project.manage("queuegate_worker", "--queue", "other", status=1)
    assert "concurrency is 0" in project.manage("queuegate_worker", "--concurrency", "0", status=1)
    for hooks, reason in (
        ("nope.Class", "ModuleNotFoundError: No module named 'nope'"),
        ("nope", "ImportError"),
        ("shop.tasks.add", "TypeError"),
        ("builtins.dict", "no subclass of queuegate_worker.Hooks"),
    ):
        told = project.manage("queuegate_worker", "--hooks", hooks, status=1)
        assert f"--hooks {hooks}: " in told and reason in told and "Traceback" not in told
    assert "no issues" in project.manage("check", "--database", "default")
    project.environment["QG_OPTIONS"] = '{"prefix": "a b"}'
    assert "prefix is 'a b'" in project.manage("check", status=1)


def test_a_database_without_a_proxy(mariadb, tmp_path):
    mariadb.fresh_database("django_around")
    direct = Project(SimpleNamespace(port=mariadb.port, database="django_around"), tmp_path)
    told = direct.manage("check", "--database", "default")
    assert "queuegate_django.W003" in told and "127.0.0.1 and 3307" in told
    assert "No queue is created" in direct.manage("migrate")
    assert "is not queuegate" in direct.manage("queuegate_tasks", status=1)
    assert "is not queuegate" in direct.manage("queuegate_worker", status=1)


def test_a_database_of_the_tasks_own(new_gate, tmp_path):
    """`migrate` alone makes neither queues nor the table of results there, and the hints say what does."""
    two = Project(new_gate().start(), tmp_path, QG_SITE=str(tmp_path / "site.db"), QG_OPTIONS='{"database": "queue"}')
    two.manage("migrate")
    hint = "run `manage.py migrate --database queue`"
    for command in (["queuegate_tasks", "--create"], ["queuegate_worker", "--drain"]):
        assert f"has no table of results: {hint}" in two.manage(*command, status=1)
    assert "queuegate_django.W004" in two.manage("check", "--database", "queue")
    two.manage("migrate", "--database", "queue")
    assert "no issues" in two.manage("check", "--database", "queue")
    result = two.run("import json; print(json.dumps(tasks.add.enqueue(1, 2).id))")
    two.manage("queuegate_worker", "--drain")
    assert two.result(result)[0] == "SUCCESSFUL"


def test_nothing_is_missing_in_the_migrations(project):
    assert "No changes detected" in project.manage("makemigrations", "queuegate_django", "--check", "--dry-run")
