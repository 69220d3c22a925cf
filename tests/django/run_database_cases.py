"""Runs the test cases of django-tasks-db against QueuegateBackend, over a proxy that runs.

Argument: the file `tests/tests.py` of its source. Where they run `db_worker`, a worker of queuegate drains the queues.
How many queries a step sends is not compared, and a result's id is no UUID. Prints what ran as JSON.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import types
import unittest
import uuid
from pathlib import Path

import django
from django.core.management import call_command

HERE = Path(__file__).parent
ROWS = "it writes or lists rows of django-tasks-db's table"
OPTION = "it tests an option that db_worker has and queuegate_worker has not"
WORDS = "the error has other words"
LOCKS = "it tests how django-tasks-db locks rows"
EXCLUDED_CLASSES = {
    "ConnectionExclusiveTranscationTestCase": LOCKS,
    "DatabaseTaskResultTestCase": LOCKS,
    "DatabaseBackendPruneTaskResultsTestCase": "it tests the command that deletes old results; here workers do that",
    "CompatTestCase": "it tests django-tasks-db's own helper",
    "DBTaskResultOrderingTestCase": ROWS,
    "AdminTestCase": "it tests a column of django-tasks-db's admin",
}
EXCLUDED = {
    "DatabaseBackendTestCase": {
        "test_refresh_result": ROWS,
        "test_refresh_result_async": ROWS,
        "test_invalid_task_path": WORDS,
        "test_task_name": "it tests a property of django-tasks-db's row",
        "test_database_backend_app_missing": "the hint names another application",
        "test_priority_range_check": ROWS,
        "test_index_scan_for_ready": "it tests an index of django-tasks-db's table",
        "test_run_after_null_0016_migration": "it tests a migration of django-tasks-db",
        "test_custom_id_function": "the option id_function",
        "test_unknown_id_function": "the option id_function",
        "test_postgres_db_id_function": "the option id_function",
        "test_postgres_id_function_expression": "the option id_function",
    },
    "DatabaseBackendWorkerTestCase": {
        "test_process_all_queues_excluding_one_queue": OPTION,
        "test_exclude_queues_requires_processing_all_queues": OPTION,
        "test_excluding_unknown_queue_processes_selected_queues": OPTION,
        "test_doesnt_process_different_backend": "queuegate_worker refuses a backend of another class",
        "test_incorrect_backend": WORDS,
        "test_too_long_worker_id": WORDS,
        "test_empty_worker_id": WORDS,
        "test_complex_return_value": WORDS,
        "test_negative_interval": OPTION,
        "test_infinite_interval": OPTION,
        "test_fractional_interval": OPTION,
        "test_zero_interval": OPTION,
        "test_negative_max_tasks": OPTION,
        "test_zero_max_tasks": OPTION,
        "test_max_tasks": OPTION,
        "test_run_after": ROWS,
        "test_run_after_priority": ROWS,
        "test_verbose_logging": "it compares each line that db_worker prints",
        "test_worker_with_locked_rows": LOCKS,
    },
    "DatabaseWorkerProcessTestCase": {
        "test_repeat_ctrl_c": "it expects the worker's name in a result while the task runs",
        "test_kill": "it expects that the task stays RUNNING; here it runs again",
        "test_multiple_workers": "it looks for words that db_worker prints",
    },
}


def adapted(case, module):
    """The case, with a worker of queuegate, and with no numbers of queries."""
    from database_stand_ins import fresh, work

    def set_up(self):
        fresh()
        super(own, self).setUp()

    def start_worker(self, args=(), *, debug=False, worker_id=None):
        del debug
        command = [sys.executable, HERE / "project/manage.py", "queuegate_worker"]
        command += ["--drain"] * ("--batch" in args) + (["--worker-id", worker_id] if worker_id else [])
        environment = {**os.environ, "QG_QUEUES": "[]"}
        process = Patient(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        if "--batch" not in args:
            receives(process)
        return process

    members = {"setUp": set_up, "assertNumQueries": lambda self, number: contextlib.nullcontext()}
    if hasattr(case, "run_worker"):
        members |= {"run_worker": staticmethod(work)}
    if hasattr(case, "start_worker"):
        members |= {"start_worker": start_worker, "WORKER_STARTUP_TIME": 0.01}
    own = type(case.__name__, (case,), members)
    own.__module__ = module.__name__
    return own


def receives(process):
    """Wait until the worker does, and has the task that waits, if there is one."""
    from database_stand_ins import Listed

    while "receiving from" not in (line := process.stdout.readline()):
        assert line, "the worker ended"
    pause, left = threading.Event(), 3000
    while Listed().ready().count():
        left -= 1
        assert left > 0, "the worker does not take the task"
        pause.wait(0.02)


class Patient(subprocess.Popen):
    """A busy machine needs longer than the cases wait."""

    def wait(self, timeout=None):
        return super().wait(None if timeout is None else 60)


def suite(module):
    """All cases but those that are excluded, and those with their reasons."""
    from django.test import SimpleTestCase, override_settings

    cases, excluded = unittest.TestSuite(), {}
    settings = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default", "queue-1"]}}
    for case in list(vars(module).values()):
        if not isinstance(case, type) or not issubclass(case, SimpleTestCase) or case.__module__ != module.__name__:
            continue
        own = adapted(case, module)
        if case.__name__ == "DatabaseBackendTestCase":
            own = override_settings(TASKS=settings)(own)
        for method in unittest.defaultTestLoader.getTestCaseNames(own):
            reason = EXCLUDED_CLASSES.get(case.__name__) or EXCLUDED.get(case.__name__, {}).get(method)
            if reason:
                excluded[f"{case.__name__}.{method}"] = reason
            else:
                cases.addTest(own(method))
    return cases, excluded


def loaded(path):
    """The module of cases, in which an id is read as an UUID without the queue's name, and db_worker is ours."""
    spec = importlib.util.spec_from_file_location("database_tests", path)
    module = sys.modules["database_tests"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    command = module.execute_from_command_line
    names = {"db_worker": "queuegate_worker"}
    module.execute_from_command_line = lambda given: command([names.get(each, each) for each in given])
    versionless = types.SimpleNamespace(version=4)
    module.uuid = types.SimpleNamespace(uuid4=uuid.uuid4, uuid1=uuid.uuid1, UUID=lambda text: versionless)
    return module


def main():
    django.setup()
    from database_stand_ins import stand_in

    stand_in()
    call_command("migrate", verbosity=0)
    cases, excluded = suite(loaded(sys.argv[1]))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(cases)
    failed = {str(case): text for case, text in (*result.failures, *result.errors)}
    known = {f"{case}.{method}" for case, methods in EXCLUDED.items() for method in methods}
    skipped = {str(case): text for case, text in result.skipped}
    told = {"ran": result.testsRun, "failed": failed, "skipped": skipped, "excluded": excluded}
    print(json.dumps({**told, "unknown": sorted(known - set(excluded))}))
    sys.stdout.flush()
    os._exit(0)  # connections of the loops' threads are not closed one by one


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE / "database_cases")]
    main()
