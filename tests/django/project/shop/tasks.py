"""The shop's tasks."""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from django.db import connection, transaction

from queuegate_worker import Hooks
from shop.models import Order

if find_spec("django.tasks") is not None:
    from django.tasks import task
else:
    from django_tasks import task


@task
def add(a, b):
    return a + b


@task
def book(customer, amount=1):
    return Order.objects.create(customer=customer, amount=amount).pk


@task(queue_name="mails", priority=10)
def mail(recipient):
    Order.objects.create(customer=recipient)


@task
def book_and_fail(customer):
    Order.objects.create(customer=customer)
    raise ValueError(f"no {customer} ☃")


@task(takes_context=True)
def fail_until(context, attempt):
    Order.objects.create(customer=f"attempt {context.attempt}")
    if context.attempt < attempt:
        raise ValueError(f"attempt {context.attempt}")
    return context.task_result.worker_ids


@task
async def book_async(customer):
    order = await Order.objects.acreate(customer=customer)
    return order.pk


@task
def return_object():
    Order.objects.create(customer="object")
    return object()


@task
def return_nan():
    return float("nan")


@task
def leave():
    sys.exit(3)


@task
def die_once_and_fail(marker):
    """As if the worker was killed, the first time."""
    if not Path(marker).exists():
        Path(marker).write_text("")
        os._exit(9)
    raise ValueError("after the kill")


@task
def break_transaction():
    """Leaves the transaction of the worker in a state in which nothing can be written."""
    transaction.set_rollback(True)


@task
def book_then_hook(customer, kills=False):
    """What it does after the commit fails, or kills the connection, which the next task then finds dead."""
    Order.objects.create(customer=customer)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        (number,) = cursor.fetchone()

    def hook():
        if not kills:
            raise ValueError("no mail server")
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute(f"KILL {number}")
        other.close()

    transaction.on_commit(hook)
    return 1


class UnreadableError(Exception):
    def __str__(self):
        return self.args[0]


@task
def fail_without_text():
    raise UnreadableError


@task
def leave_autocommit():
    transaction.set_autocommit(False)
    Order.objects.create(customer="not committed")
    return 1


@task
def connection_id():
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        return cursor.fetchone()[0]


@task
def in_atomic():
    return connection.in_atomic_block


@task
def steal(table):
    """Gives its own message back, from another connection, the first time."""
    if "STOLEN" not in os.environ:
        os.environ["STOLEN"] = "1"
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute(f"RELEASE {table} WHERE task = 'shop.tasks.steal'")
            assert cursor.rowcount == 1
        other.close()
    Order.objects.create(customer="steal")


@task
def wait_for(folder, name, writes_first=True):
    """Says that it runs, and goes on when it may."""
    if writes_first:
        Order.objects.create(customer=name)
    (Path(folder) / f"{name}.{os.getpid()}").write_text("")
    go, pause = Path(folder) / f"{name}.go", threading.Event()
    until = time.monotonic() + 300
    while not go.exists():
        assert time.monotonic() < until
        pause.wait(0.02)
    return name


@task
async def wait_in_coroutine(folder, name):
    """Ends when it may, in a thread that the interpreter waits for."""
    wait_for.func(folder, name, writes_first=False)


class Traced(Hooks):
    """Notes the traceparent of each message."""

    seen: ClassVar[list[str]] = []

    def received(self, messages):
        self.seen.extend(message.traceparent for message in messages)
