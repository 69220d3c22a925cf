"""Runs Django's own test cases of task backends against QueuegateBackend, over a proxy that runs.

Argument: the folder `tests` of Django's source. The cases test DummyBackend and ImmediateBackend, so here two backends
take their place: one lists and deletes what is in its queue, and one runs each task by a worker before `enqueue`
returns. With Django 5.2 the modules of the backport stand for those of `django.tasks`. Prints what ran as JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import types
import unittest
from importlib.util import find_spec
from pathlib import Path

import django
from django.core.management import call_command

TESTS = Path(sys.argv[1])
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # the cases read a backend's list within coroutines

EXCLUDED = {
    "DummyBackendTestCase.test_using_correct_backend": "the backend that lists has options",
    "DummyBackendTestCase.test_refresh_result": "it changes a result in DummyBackend's memory",
    "DummyBackendTestCase.test_refresh_result_async": "it changes a result in DummyBackend's memory",
    "ImmediateBackendTestCase.test_using_correct_backend": "the backend that runs has options",
    "ImmediateBackendTestCase.test_cannot_get_result": "results can be read",
    "ImmediateBackendTestCase.test_cannot_refresh_result": "results can be read",
    "ImmediateBackendTestCase.test_cannot_pass_run_after": "run_after is supported",
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "the task runs in a worker, which records the error",
    "ImmediateBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default": "it does wait",
}
"""Cases that test what DummyBackend or ImmediateBackend cannot do, or their memory."""
OF_THE_BACKPORT = {
    "DummyBackendTestCase.test_validate_disallowed_async_task": "the backport's message has a small letter",
}


def stand_in() -> None:
    """The backport's modules, under the names of Django 6."""
    names = ("", ".base", ".exceptions", ".signals", ".backends", ".backends.base", ".backends.dummy")
    for name in (*names, ".backends.immediate"):
        sys.modules[f"django.tasks{name}"] = importlib.import_module(f"django_tasks{name}")
    django.tasks, exceptions = sys.modules["django.tasks"], sys.modules["django.tasks.exceptions"]
    for name in ("InvalidTask", "InvalidTaskBackend"):
        if not hasattr(exceptions, name):
            setattr(exceptions, name, getattr(exceptions, f"{name}Error"))  # their names until 0.12.0
    logging.getLogger("django_tasks").parent = logging.getLogger("django.tasks")


def modules() -> dict[str, types.ModuleType]:
    """The modules of cases, as a package `tasks`."""
    package = types.ModuleType("tasks")
    package.__path__ = [str(TESTS / "tasks")]
    sys.modules["tasks"] = package
    return {name: importlib.import_module(f"tasks.{name}") for name in NAMES}


NAMES = ("test_tasks", "test_dummy_backend", "test_immediate_backend")


def suite() -> tuple[unittest.TestSuite, dict[str, str]]:
    """All cases of the three modules but those that are excluded."""
    from backends_of_cases import Listed, Ran
    from django.test import SimpleTestCase, override_settings

    found, excluded = modules(), {}
    for module in found.values():  # what the cases compare a backend's class with
        if hasattr(module, "DummyBackend"):
            module.DummyBackend = Listed
        if hasattr(module, "ImmediateBackend"):
            module.ImmediateBackend = Ran
    path = "backends_of_cases."
    options = {"prefix": "cases_"}
    listed = {"BACKEND": path + "Listed", "QUEUES": [], "OPTIONS": options}
    ran = {"BACKEND": path + "Ran", "QUEUES": [], "OPTIONS": options}
    settings = {
        "test_tasks": {"default": {**listed, "QUEUES": ["default", "queue_1"]}, "immediate": ran},
        "test_dummy_backend": {"default": listed},
        "test_immediate_backend": {"default": ran},
    }
    settings["test_tasks"]["missing"] = {"BACKEND": "does.not.exist"}
    cases = unittest.TestSuite()
    for name, module in found.items():
        for case in vars(module).values():
            if not isinstance(case, type) or not issubclass(case, SimpleTestCase) or case.__module__ != module.__name__:
                continue
            own = type(case.__name__, (case,), {"databases": {"default"}})
            own = override_settings(TASKS=settings[name])(own)
            for method in unittest.defaultTestLoader.getTestCaseNames(own):
                label = f"{case.__name__}.{method}"
                if reason := reasons().get(label):
                    excluded[label] = reason
                else:
                    cases.addTest(own(method))
    return cases, excluded


def reasons() -> dict[str, str]:
    return EXCLUDED if HAS_TASKS else {**EXCLUDED, **OF_THE_BACKPORT}


HAS_TASKS = find_spec("django.tasks") is not None


def main() -> None:
    django.setup()
    if not HAS_TASKS:
        stand_in()
    call_command("migrate", verbosity=0)
    cases, excluded = suite()
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(cases)
    failed = {str(case): text for case, text in (*result.failures, *result.errors)}
    unknown = sorted(set(reasons()) - set(excluded))
    print(json.dumps({"ran": result.testsRun, "failed": failed, "excluded": excluded, "unknown": unknown}))
    sys.stdout.flush()
    os._exit(0)  # connections of the loops' threads are not closed one by one


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
