"""Tasks of the names that the test cases of django-tasks-db enqueue; those import them from here."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from threading import Event

if find_spec("django.tasks") is not None:
    from django.tasks import TaskContext, task
else:
    from django_tasks import TaskContext, task


@task
def noop_task(*args, **kwargs):
    pass


@task
async def noop_task_async(*args, **kwargs):
    pass


@task
def calculate_meaning_of_life():
    return 42


@task
def failing_task_value_error():
    raise ValueError("This task failed due to ValueError")


@task
def failing_task_system_exit():
    raise SystemExit("This task failed due to SystemExit")


@task
def failing_task_keyboard_interrupt():
    raise KeyboardInterrupt("This task failed due to KeyboardInterrupt")


@task
def complex_exception():
    raise ValueError(ValueError("This task failed"))


@task
def complex_return_value():
    return lambda: True  # JSON has no functions


@task
def exit_task():
    sys.exit(1)


@task
def hang():
    Event().wait(300)


@task
def sleep_for(seconds):
    Event().wait(seconds)


@task(takes_context=True)
def get_task_id(context):
    return context.task_result.id


@task(takes_context=True)
def test_context(context, attempt):
    assert isinstance(context, TaskContext) and context.attempt == attempt
