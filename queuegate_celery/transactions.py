"""Tasks enqueued in the application's own transaction: they are committed together with its rows, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_cursor: ContextVar[Any] = ContextVar("queuegate_celery_cursor", default=None)


@contextmanager
def publishing_on(cursor: Any) -> Iterator[None]:
    """Within it, in this thread or asyncio task, `delay` and similar calls INSERT with `cursor` and commit nothing.

    `cursor` is an open DB-API cursor whose placeholders are `%s`: of PyMySQL, mysqlclient, mysql-connector-python, or
    Django's. The task exists once its transaction commits, and never if that is rolled back. The cursor's connection
    should go through the proxy, because then workers get the task at once. Errors of the cursor are raised unchanged,
    and nothing is retried: the transaction is the application's.
    """
    token = _cursor.set(cursor)
    try:
        yield
    finally:
        _cursor.reset(token)


def current_cursor() -> Any:
    """The cursor of the innermost `publishing_on`, or None."""
    return _cursor.get()
