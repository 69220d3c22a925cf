"""What is used of Django's tasks: `django.tasks` where Django has it (from version 6 on), else the backport.

Both have the same classes. All other modules take them from here, so none of them knows which of the two it is.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from traceback import format_exception
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from queuegate_worker.sending.rows import exact

if find_spec("django.tasks") is not None:
    from django.tasks import DEFAULT_TASK_QUEUE_NAME, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

    LOGGER = "django.tasks"
elif find_spec("django_tasks") is not None:
    from django_tasks import DEFAULT_TASK_QUEUE_NAME, exceptions, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

    LOGGER = "django_tasks"
    InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError  # its name until 0.12.0
else:
    raise ImproperlyConfigured("Django before version 6 needs the backport: pip install 'queuegate-django[backport]'")

__all__ = [
    "DEFAULT_TASK_QUEUE_NAME",
    "LOGGER",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "json_text",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_error",
    "task_finished",
    "task_started",
]

_TRACEBACK_CHARACTERS = 100_000  # the end of it names the error; a recursion without end has some megabytes


def json_text(value: Any) -> str:
    """A normalized value as JSON. Raises ValueError for numbers that JSON does not have, or not exactly."""
    return exact(json.dumps(value, allow_nan=False))


def task_error(error: BaseException) -> Any:
    """The TaskError of an exception."""
    kind = type(error)
    traceback = "".join(format_exception(error))[-_TRACEBACK_CHARACTERS:]
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback=traceback.encode("utf-8", "replace").decode(),  # a database stores no half of a surrogate pair
    )
