"""What the project does with its tasks. `chapters.py` runs these functions, or those that are named, and prints of each
whether it is done or failed.

Each begins with empty tables and queues, as `migrate` has created them.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest import mock

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
    django.setup()
    call_command("migrate", verbosity=0)

from shop import tasks
from shop.models import Order

from queuegate_django import results, worker_run
from queuegate_django.models import StoredResult
from queuegate_django.tasks_api import (
    LOGGER,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from queuegate_worker import WorkerError

QUEUE = "tasks_default"


def rows(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def queue_names():
    return [row[0] for row in rows("SELECT queue FROM queuegate.queues WHERE db = DATABASE() ORDER BY queue")]


def work(**options):
    """Run what is due, in this process."""
    call_command("queuegate_worker", drain=True, concurrency=options.pop("concurrency", 2), **options)


def customers():
    return sorted(Order.objects.values_list("customer", flat=True))


def refreshed(result):
    return task_backends["default"].get_result(result.id)


@contextmanager
def options(**changes):
    own = {**settings.TASKS["default"], "OPTIONS": {**settings.TASKS["default"]["OPTIONS"], **changes}}
    with override_settings(TASKS={**settings.TASKS, "default": own}):
        yield


def transactions():
    """The message is one INSERT of the application's transaction."""
    with pytest.raises(KeyError), transaction.atomic():
        Order.objects.create(customer="rolled back")
        tasks.add.enqueue(1, 2)
        raise KeyError
    assert (customers(), rows(f"SELECT COUNT(*) FROM {QUEUE}")) == ([], [(0,)])
    with transaction.atomic():
        Order.objects.create(customer="committed")
        with CaptureQueriesContext(connection) as captured:
            result = tasks.add.enqueue(1, b=2)
        assert rows("SELECT task, JSON_VALID(args), priority FROM tasks_default") == [("shop.tasks.add", 1, 0)]
    (insert,) = captured.captured_queries
    assert insert["sql"].startswith("INSERT INTO `tasks_default` (`task_id`, `task`, `args`")
    work()
    assert refreshed(result).return_value == 3


def success():
    """All that a result says, before, and after the task has run."""
    before = timezone.now()
    result = tasks.book.using(priority=7).enqueue("Ann ☃", amount=2)
    assert result.status == TaskResultStatus.READY and result.enqueued_at >= before
    assert (result.attempts, result.started_at, result.finished_at, result.last_attempted_at) == (0, None, None, None)
    assert refreshed(result) == result
    work(worker_id="worker-1")
    assert result.status == TaskResultStatus.READY
    result.refresh()
    assert result == refreshed(result) == tasks.book.get_result(result.id)
    (order,) = Order.objects.all()
    assert (order.customer, order.amount) == ("Ann ☃", 2)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, order.pk)
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert (result.worker_ids, result.errors, result.attempts) == (["worker-1"], [], 1)
    assert (result.args, result.kwargs, result.backend) == (["Ann ☃"], {"amount": 2}, "default")
    assert result.task == tasks.book.using(priority=7)
    assert rows(f"SELECT time_acked IS NOT NULL FROM {QUEUE}") == [(1,)]
    rows_before = StoredResult.objects.count()
    connection.cursor().execute(f"DELETE FROM {QUEUE}")  # as the proxy does after purge_after
    assert refreshed(result) == result and rows_before == 1


def failure():
    """What the task has written is gone, the error is stored, and the message is a dead letter with its reason."""
    result = tasks.book_and_fail.enqueue("bob")
    broken = [each.enqueue() for each in (tasks.return_object, tasks.return_nan, tasks.leave, tasks.break_transaction)]
    broken.append(tasks.add.enqueue(2**63, 2**63))
    work()
    assert customers() == []
    result.refresh()
    assert result.status == TaskResultStatus.FAILED and result.is_finished and result.finished_at
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert error.traceback.startswith("Traceback") and error.traceback.endswith("ValueError: no bob ☃\n")
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    kinds = [refreshed(each).errors[0].exception_class.__name__ for each in broken]
    assert kinds == ["TypeError", "ValueError", "SystemExit", "TransactionManagementError", "ValueError"]
    until(lambda: rows(f"SHOW TABLES LIKE '{QUEUE}_dead'") and rows(f"SELECT COUNT(*) FROM {QUEUE}_dead") == [(6,)])
    reason = rows(f"SELECT attempts, last_error FROM {QUEUE}_dead WHERE task = 'shop.tasks.book_and_fail'")
    assert reason == [(1, "ValueError: no bob ☃")]
    StoredResult.objects.all().delete()  # as after keep_results
    again = refreshed(result)
    assert again.status == TaskResultStatus.FAILED and "no bob" in again.errors[0].traceback


def retries():
    """With max_attempts: an error of each attempt, and FAILED after the last."""
    with options(max_attempts=3, queue_options={"min_backoff": "1h"}):
        fresh()
        good, bad = tasks.fail_until.enqueue(3), tasks.fail_until.enqueue(4)
        work(worker_id="first")
        assert refreshed(good).status == TaskResultStatus.READY and not refreshed(good).is_finished
        (error,) = refreshed(good).errors
        assert error.traceback.endswith("ValueError: attempt 1\n")
        assert refreshed(good).worker_ids == ["first"] and refreshed(good).started_at
        for _ in range(2):
            with connection.cursor() as cursor:
                cursor.execute(f"RETRY {QUEUE} NOW WHERE id > 0")
            work(worker_id="next")
    good.refresh(), bad.refresh()
    assert good.status == TaskResultStatus.SUCCESSFUL and bad.status == TaskResultStatus.FAILED
    assert customers() == ["attempt 3"]
    assert [error.traceback.splitlines()[-1] for error in bad.errors] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]
    assert len(good.errors) == 2 and good.worker_ids == ["first", "next", "next"] == good.return_value
    assert good.started_at < good.last_attempted_at <= good.finished_at
    until(lambda: rows(f"SHOW TABLES LIKE '{QUEUE}_dead'") and rows(f"SELECT attempts FROM {QUEUE}_dead") == [(3,)])


def not_atomic():
    """OPTIONS atomic = False: the task has no transaction around it."""
    inside = tasks.in_atomic.enqueue()
    work()
    assert refreshed(inside).return_value is True
    with options(atomic=False):
        outside, failed = tasks.in_atomic.enqueue(), tasks.book_and_fail.enqueue("written before")
        work()
        assert refreshed(outside).return_value is False
        assert refreshed(failed).status == TaskResultStatus.FAILED
    assert customers() == ["written before"]


def order():
    """The highest priority first, and nothing before its time."""
    for number, priority in enumerate((0, -100, 100, 50)):
        tasks.book.using(priority=priority).enqueue(f"{priority}", amount=number)
    later = tasks.book.using(run_after=timezone.now() + timedelta(seconds=2), priority=100).enqueue("later")
    past = tasks.book.using(run_after=datetime(1999, 1, 1, tzinfo=UTC), priority=-50).enqueue("past")
    assert refreshed(later) == later and refreshed(past) == past
    work(concurrency=1)
    booked = list(Order.objects.order_by("pk").values_list("customer", flat=True))
    assert booked == ["100", "50", "0", "past", "-100"]
    assert refreshed(later).status == TaskResultStatus.READY
    until(lambda: [work(), refreshed(later).is_finished][1])
    later.refresh()
    assert later.started_at >= later.task.run_after
    for wrong, text in (({"priority": 101}, "priority must be"), ({"queue_name": "other"}, "is not valid")):
        with pytest.raises(InvalidTask, match=text):
            tasks.book.using(**wrong)
    with pytest.raises(InvalidTask, match="before 2262"):
        tasks.book.using(run_after=datetime(2300, 1, 1, tzinfo=UTC))


def coroutines():
    """aenqueue, aget_result, arefresh, and a task that is a coroutine function."""

    async def story():
        result = await tasks.book_async.aenqueue("async")
        assert (await task_backends["default"].aget_result(result.id)) == result
        return result

    result = asyncio.run(story())
    work()
    asyncio.run(result.arefresh())
    assert result.return_value == Order.objects.get().pk
    failing = tasks.book_async.enqueue("x" * 300)
    work()
    assert refreshed(failing).status == TaskResultStatus.FAILED
    assert customers() == ["async"]


def signals():
    """Sent once each, with the state of the result at that time; the result is committed before task_finished."""
    seen = []

    def receiver(name):
        def receive(sender, task_result, **_):
            stored = StoredResult.objects.filter(pk=task_result.id.rpartition(":")[2]).count()
            seen.append((name, sender.__name__, str(task_result.status), stored))
            if name == "finished":
                raise KeyError("a receiver that fails changes nothing")

        return receive

    kept = [receiver("enqueued"), receiver("started"), receiver("finished")]
    for signal, receive in zip((task_enqueued, task_started, task_finished), kept, strict=True):
        signal.connect(receive)
    result, failing = tasks.add.enqueue(1, 2), tasks.book_and_fail.enqueue("x")
    work(concurrency=1)
    assert seen[:2] == [("enqueued", "QueuegateBackend", "READY", 0)] * 2
    assert seen[2:] == [
        ("started", "QueuegateBackend", "RUNNING", 0), ("finished", "QueuegateBackend", "SUCCESSFUL", 1),
        ("started", "QueuegateBackend", "RUNNING", 0), ("finished", "QueuegateBackend", "FAILED", 1),
    ]  # fmt: skip
    assert refreshed(result).status == TaskResultStatus.SUCCESSFUL
    assert refreshed(failing).attempts == 1


def after_the_commit():
    """A function of on_commit that raises, and a connection that is found dead: neither is the task's error."""
    finished, text, log = [], io.StringIO(), logging.getLogger(LOGGER)
    handler = logging.StreamHandler(text)

    def receive(task_result, **_):
        finished.append(str(task_result.status))

    task_finished.connect(receive)
    log.addHandler(handler)
    try:
        failing = tasks.book_then_hook.enqueue("Ann")
        work()
        assert (finished, refreshed(failing).return_value, customers()) == (["SUCCESSFUL"], 1, ["Ann"])
        assert "ValueError: no mail server" in text.getvalue() and "is committed" in text.getvalue()
        killing, after = tasks.book_then_hook.enqueue("Bob", kills=True), tasks.book.enqueue("Cid")
        until(lambda: [work(concurrency=1), refreshed(after).is_finished][1])
    finally:
        log.removeHandler(handler)
        task_finished.disconnect(receive)
    assert [refreshed(each).status for each in (killing, after)] == [TaskResultStatus.SUCCESSFUL] * 2
    assert customers() == ["Ann", "Bob", "Cid"]


def results_not_stored():
    """A result that the database refuses ends the task; a passing fault has it run again."""
    real, raised = results.store, []

    def store(options, alias, record):
        if record.ending.status == TaskResultStatus.SUCCESSFUL and raised:
            raise django.db.OperationalError(*raised.pop())
        real(options, alias, record)

    with mock.patch.object(results, "store", store):
        for number, text in ((1153, "refused"), (3140, "refused"), (1105, "any error of Vitess")):
            raised.append((number, text))
            refused = tasks.book.enqueue("refused")
            work()
            (error,) = refreshed(refused).errors
            assert error.exception_class is django.db.OperationalError and customers() == []
        for number in (1205, 1213, 2006, 1105, 1218, 1203, 1129, 1637):
            raised.append((number, "backend connection lost: the server closed it"))
            passing = tasks.add.enqueue(number, 1)
            until(lambda passing=passing: [work(), refreshed(passing).is_finished][1])
            assert refreshed(passing).return_value == number + 1
            assert refreshed(passing).attempts == 2
    unreadable = tasks.fail_without_text.enqueue()
    work()
    assert refreshed(unreadable).errors[0].exception_class is tasks.UnreadableError


def autocommit_left():
    """What a task does to autocommit ends with the task."""
    with options(atomic=False):
        result = tasks.leave_autocommit.enqueue()
        work()
        assert refreshed(result).return_value == 1
    assert customers() == ["not committed"]
    connections.settings["default"]["AUTOCOMMIT"] = False
    try:
        assert [each.id for each in task_backends["default"].check()] == ["queuegate_django.E003"]
    finally:
        connections.settings["default"]["AUTOCOMMIT"] = True


def running():
    """While a task runs, its result says so."""
    folder = os.environ["QG_FOLDER"]
    result = tasks.wait_for.enqueue(folder, "runs")
    worker = threading.Thread(target=work)
    worker.start()
    until(lambda: any(name.startswith("runs.") for name in os.listdir(folder)))
    during = refreshed(result)
    assert during.status == TaskResultStatus.RUNNING and during.attempts == 1 and during.finished_at is None
    assert abs(during.started_at - during.enqueued_at) < timedelta(seconds=60)
    with pytest.raises(ValueError, match="not finished"):
        _ = during.return_value
    assert customers() == []
    open(os.path.join(folder, "runs.go"), "w").close()
    worker.join(60)
    assert refreshed(result).return_value == "runs"
    assert customers() == ["runs"]


def lost_lease():
    """Another worker has the message: nothing of the first run is committed, and no result is stored."""
    result = tasks.steal.enqueue(QUEUE)
    work()
    assert refreshed(result).status == TaskResultStatus.SUCCESSFUL
    assert customers() == ["steal"]


def missing_results():
    for wrong in ("123", "default:", "default:none", "other:1", "a`b:1", "x" * 300, "mails:1"):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(wrong)
    result = tasks.add.enqueue(1, 2)
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result.id.replace("default:", "mails:"))
    with connection.cursor() as cursor:
        cursor.execute(f"ACK {QUEUE} WHERE id > 0")
    with pytest.raises(TaskResultDoesNotExist):
        refreshed(result)


def bulk():
    """enqueue_all: all or none, with few statements."""
    backend = task_backends["default"]
    calls = [(tasks.add, [number, 1], {}) for number in range(1200)] + [(tasks.mail, ["Ann"], {})]
    with CaptureQueriesContext(connection) as captured:
        enqueued = backend.enqueue_all(calls)
    inserts = [query["sql"] for query in captured.captured_queries if query["sql"].startswith("INSERT")]
    assert len(inserts) == 4 and len(enqueued) == 1201
    assert [result.args for result in enqueued[:3]] == [[0, 1], [1, 1], [2, 1]]
    wrong = [(tasks.add, [1, 1], {}), (tasks.add.using(run_after=timezone.now()), [object()], {})]
    with pytest.raises(TypeError):
        backend.enqueue_all(wrong)
    with pytest.raises(ValueError, match="send it as text"):
        tasks.add.enqueue(2**64, 1)
    assert backend.enqueue_all([]) == []
    assert rows(f"SELECT COUNT(*) FROM {QUEUE}") == [(1200,)]
    assert rows("SELECT priority FROM tasks_mails") == [(-10,)]


def purging():
    """Results that are older than keep_results are deleted, by a worker too; errors of a task that is to come again
    and results of another backend are not."""
    aged = {"written_at": results.now() - timedelta(days=2)}
    with options(max_attempts=2, queue_options={"min_backoff": "1h"}):
        fresh()
        ids = [tasks.book_and_fail.enqueue(name).id.rpartition(":")[2] for name in ("waits", "gone")]
        work()
    others = tasks.add.enqueue(5, 6)
    work()
    StoredResult.objects.filter(status=TaskResultStatus.SUCCESSFUL).update(backend="other")
    old, new = tasks.add.enqueue(1, 2), tasks.add.enqueue(3, 4)
    work()
    StoredResult.objects.exclude(pk=new.id.rpartition(":")[2]).update(**aged)
    with connection.cursor() as cursor:
        cursor.execute(f"ACK {QUEUE} WHERE task_id = %s", [ids[1]])
    assert shown("queuegate_tasks", purge=True).endswith("2 results are deleted\n")
    assert [refreshed(new).return_value, refreshed(others).return_value, StoredResult.objects.count()] == [7, 11, 3]
    assert StoredResult.objects.get(status=TaskResultStatus.READY).pk == ids[0]
    StoredResult.objects.exclude(pk=new.id.rpartition(":")[2]).delete()
    with pytest.raises(TaskResultDoesNotExist):
        refreshed(old)
    StoredResult.objects.update(**aged)
    work()
    assert StoredResult.objects.count() == 0
    with options(keep_results=timedelta(seconds=1)):
        tasks.add.enqueue(1, 2)
        work()
        folder = os.environ["QG_FOLDER"]
        tasks.wait_for.enqueue(folder, "purges", writes_first=False)
        worker = threading.Thread(target=work)
        worker.start()
        until(lambda: StoredResult.objects.count() == 0)
        open(os.path.join(folder, "purges.go"), "w").close()
        worker.join(60)


def connections_between_tasks():
    """They are closed as between requests: by CONN_MAX_AGE."""
    for age in (None, 0):
        connections.settings["default"]["CONN_MAX_AGE"] = age
        first, second = tasks.connection_id.enqueue(), tasks.connection_id.enqueue()
        work(concurrency=1)
        same = refreshed(first).return_value == refreshed(second).return_value
        assert same is (age is None)


def naive_times():
    """Without USE_TZ all times are naive, of TIME_ZONE."""
    with override_settings(USE_TZ=False):
        before = datetime.now()
        result = tasks.add.using(run_after=before - timedelta(hours=1)).enqueue(1, 2)
        assert refreshed(result) == result and before <= result.enqueued_at <= datetime.now()
        later = tasks.add.using(run_after=before + timedelta(hours=1)).enqueue(1, 2)
        work()
        result.refresh()
        assert result.return_value == 3 and before <= result.started_at <= result.finished_at <= datetime.now()
        assert refreshed(later).status == TaskResultStatus.READY


def not_a_task():
    """A path that is no task: the message is a dead letter, and the worker goes on."""
    good = tasks.add.enqueue(1, 2)
    bad = [tasks.add.enqueue(5, 6) for _ in range(3)]
    paths = ("shop.models.Order", "shop.tasks.gone", "no.such.module")
    for result, path in zip(bad, paths, strict=True):
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {QUEUE} SET task = %s WHERE task_id = %s", [path, result.id.rpartition(":")[2]])
    work()
    assert refreshed(good).return_value == 3
    errors = StoredResult.objects.exclude(pk=good.id.rpartition(":")[2]).values_list("errors", flat=True)
    kinds = sorted(error["exception_class_path"].rpartition(".")[2] for (error,) in errors)
    assert kinds == ["ImportError", "ModuleNotFoundError", "SuspiciousOperation"]
    for args in ("[]", '{"args": 3, "kwargs": {}}', '{"args": []}'):
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {QUEUE} (task_id, task, args, enqueued_at) VALUES (%s, 'shop.tasks.add', %s, NOW(6))",
                [str(hash(args)), args],
            )
    work()
    until(lambda: rows(f"SELECT COUNT(*) FROM {QUEUE}_dead") == [(6,)])
    assert rows(f"SELECT COUNT(*) FROM {QUEUE}_dead WHERE last_error LIKE 'its columns are not%%'") == [(3,)]


def traces():
    """OPTIONS traces: the message has the current span of OpenTelemetry, for which a module stands in here."""
    context = SimpleNamespace(is_valid=True, trace_id=0xAF7651916CD43DD8448EB211C80319C, span_id=0xB7AD, trace_flags=1)
    span = SimpleNamespace(get_span_context=lambda: context)
    loaded = {"opentelemetry.trace": SimpleNamespace(get_current_span=lambda: span)}
    tasks.Traced.seen.clear()
    with mock.patch.dict(sys.modules, loaded):
        with options(traces=True):
            tasks.add.enqueue(1, 2)
        tasks.add.enqueue(1, 2)
    work(hooks="shop.tasks.Traced", concurrency=1)
    assert tasks.Traced.seen == ["00-0af7651916cd43dd8448eb211c80319c-000000000000b7ad-01", None]


def admin():
    """The list, its filters, a result, and failed tasks run again."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    good, bad = tasks.add.enqueue(1, 2), tasks.book_and_fail.enqueue("first <time>")
    work()
    User.objects.create_superuser("root", password="x")
    client = Client()
    client.login(username="root", password="x")
    place = "/admin/queuegate_django/storedresult/"
    page = client.get(place).content.decode()
    assert "shop.tasks.add" in page and "shop.tasks.book_and_fail" in page and "Run selected failed tasks again" in page
    page = client.get(place + "?status__exact=FAILED&queue=default").content.decode()
    assert "shop.tasks.book_and_fail" in page and "shop.tasks.add" not in page
    key = bad.id.rpartition(":")[2]
    page = client.get(f"{place}{key}/change/").content.decode()
    assert "no first &lt;time&gt;" in page and 'name="_save"' not in page
    assert client.get(place + "add/").status_code == 403
    until(lambda: rows(f"SHOW TABLES LIKE '{QUEUE}_dead'") and rows(f"SELECT COUNT(*) FROM {QUEUE}_dead") == [(1,)])
    ids = [key, good.id.rpartition(":")[2]]
    form = {"action": "run_again", "_selected_action": ids}
    page = client.post(place, form, follow=True).content.decode()
    assert "1 task runs again." in page
    assert refreshed(bad).status == TaskResultStatus.READY and not refreshed(bad).is_finished
    work()
    assert refreshed(bad).status == TaskResultStatus.FAILED and refreshed(good).return_value == 3
    _redriven_in_part(client, place, bad)
    reader = User.objects.create_user("reader", password="x", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_storedresult"))
    other = Client()
    other.login(username="reader", password="x")
    assert "Run selected failed tasks again" not in other.get(place).content.decode()
    other.post(place, form)
    assert refreshed(bad).status == TaskResultStatus.FAILED


def _redriven_in_part(client, place, bad):
    """Of three failed tasks one is a dead letter of a backend in TASKS: the others stay as they are."""
    acked, gone = tasks.book_and_fail.enqueue("acked"), tasks.book_and_fail.enqueue("gone")
    work()
    until(lambda: rows(f"SELECT COUNT(*) FROM {QUEUE}_dead") == [(3,)])
    ids = [each.id.rpartition(":")[2] for each in (bad, acked, gone)]
    with connection.cursor() as cursor:
        cursor.execute(f"ACK {QUEUE}_dead WHERE task_id = %s", [ids[1]])
    StoredResult.objects.filter(pk=ids[2]).update(backend="old")
    page = client.post(place, {"action": "run_again", "_selected_action": ids}, follow=True).content.decode()
    assert "1 task runs again." in page and "2 failed tasks are not in the dead-letter queue" in page
    failed = StoredResult.objects.filter(status=TaskResultStatus.FAILED, finished_at__isnull=False)
    assert sorted(failed.values_list("pk", flat=True)) == sorted(ids[1:])
    work()
    assert refreshed(bad).status == TaskResultStatus.FAILED


def creation():
    """migrate creates what is missing; a table of that name is refused; the commands say what to do."""
    assert queue_names() == ["tasks_default", "tasks_mails"]
    options_set = dict(row[:2] for row in rows("SHOW QUEUE tasks_default OPTIONS"))
    assert (options_set["max_attempts"], options_set["purge_after"]) == ("20", "3600s")
    tasks.add.enqueue(1, 2)
    with connection.cursor() as cursor:
        cursor.execute("DROP QUEUE tasks_mails")
    counted = (
        "tasks_default: 1 ready, 0 scheduled, 0 retrying, 0 in_flight, 0 dead\n"
        "tasks_mails: missing; run `manage.py migrate`, or `manage.py queuegate_tasks --create`\n"
    )
    until(lambda: shown("queuegate_tasks") == counted)  # counts may be a second old
    with pytest.raises(django.db.DatabaseError) as refused:
        tasks.mail.enqueue("Ann")
    assert "manage.py migrate" in refused.value.__notes__[0]
    with pytest.raises(CommandError, match="queuegate_tasks --create"):
        work(queue=["mails"])
    with pytest.raises(CommandError, match=r"TASKS\['other'\]: .*'other' doesn't exist"):
        work(backend="other")
    for worker_id, length in (("", 0), ("x" * 65, 65)):
        with pytest.raises(CommandError, match=f"worker-id: it has {length} characters; there may be 1 to 64"):
            call_command("queuegate_worker", "--drain", f"--worker-id={worker_id}")
    assert "created tasks_mails" in shown("queuegate_tasks", create=True)
    assert "Created" not in shown("migrate", verbosity=1)
    with connection.cursor() as cursor:
        cursor.execute("DROP QUEUE tasks_mails")
        cursor.execute("CREATE TABLE tasks_mails (n INT)")
    with pytest.raises(CommandError, match="another prefix"):
        shown("queuegate_tasks", create=True)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE tasks_mails")
    assert "  Created the queue tasks_mails\n" in shown("migrate", verbosity=1)
    with options(prefix="jobs-", queue_options={"max_attempts": 3}):
        assert "created jobs-default" in shown("queuegate_tasks", create=True)
        result = tasks.add.enqueue(1, 2)
        work()
        assert refreshed(result).return_value == 3
        assert dict(row[:2] for row in rows("SHOW QUEUE `jobs-default` OPTIONS"))["max_attempts"] == "3"


def shared_queues():
    """Two backends with one queue are refused."""
    own = settings.TASKS["default"]

    def checked(**changes):
        with override_settings(TASKS={"default": own, "second": {**own, **changes}}):
            return [(each.id, each.msg) for name in ("default", "second") for each in task_backends[name].check()]

    ((number, text),) = checked(QUEUES=["other", "mails"])
    assert number == "queuegate_django.E004" and "'default' and 'second' have the same queue" in text
    assert [number for number, _ in checked(QUEUES=[])] == ["queuegate_django.E004"]
    assert checked(QUEUES=["other"]) == checked(OPTIONS={"prefix": "second_"}) == []


def shown(*command, **changes):
    output = io.StringIO()
    call_command(*command, stdout=output, no_color=True, **changes)
    return output.getvalue()


def addresses():
    """A worker goes where Django goes: by OPTIONS, by the settings, by an option file."""
    path = os.path.join(os.environ["QG_FOLDER"], "my.cnf")
    with open(path, "w") as file:
        port = os.environ["QG_PORT"]
        file.write(f"[client]\nhost = 127.0.0.1\nport = {port}\nuser = 'root'\ndatabase = main\nquick\npassword\n")
        file.write("[own]\nuser = shop\nsocket = /run/own.sock\nssl_ca = /etc/ca.pem\n")
    connections["default"].close()
    none = dict.fromkeys(("HOST", "PORT", "USER", "PASSWORD", "NAME"), "")
    in_file = {"host": "127.0.0.1", "port": int(port), "user": "root", "database": "main"}

    def address(options, **changes):
        changed = {**none, **changes, "OPTIONS": {"read_default_file": path, **options}}
        with mock.patch.dict(connections["default"].settings_dict, changed):
            return worker_run.address_of("default")

    assert address({}) == in_file
    assert address({"user": "ann", "passwd": "x", "db": "other"}, USER="bob", NAME="main") == {
        **in_file, "user": "ann", "password": "x", "database": "other",
    }  # fmt: skip
    own = {"read_default_group": "own"}
    assert address(own, PORT="3308") == {
        **in_file, "port": 3308, "user": "shop", "unix_socket": "/run/own.sock", "ssl": {"ca": "/etc/ca.pem"},
    }  # fmt: skip
    assert "unix_socket" not in address(own, HOST="gate")
    assert address({"read_default_file": None, "host": "gate"}, HOST="/run/a.sock")["unix_socket"] == "/run/a.sock"
    assert address({"read_default_file": None}) == {"host": "127.0.0.1", "port": 3306}
    with open(path, "w") as file:
        file.write("[client]\nuser=shop\n  password='a#b' # of the shop\n!include more.cnf\n")
    with open(os.path.join(os.path.dirname(path), "more.cnf"), "w") as file:
        file.write(f"[client]\nport = {port}\nssl-mode=VERIFY_IDENTITY\n")
    secret = address({})
    assert (secret["password"], secret["port"], secret["ssl"].check_hostname) == ("a#b", int(port), True)
    assert address({"ssl_mode": "DISABLED"})["ssl_disabled"] is True
    assert address({"ssl_mode": "REQUIRED"})["ssl"].verify_mode == 0
    for ssl, text in (({"ssl": {"cipher": "x"}}, "not cipher"), ({"ssl_mode": "MAYBE"}, "known are disabled"),
                      ({"ssl": {"ca": "/no/such.pem"}}, "/no/such.pem")):  # fmt: skip
        with pytest.raises(WorkerError, match=text):
            address(ssl)
    with open(path, "w") as file:
        file.write(f"[client]\nhost = 127.0.0.1\nport = {port}\nuser = 'root'\n")
    result = tasks.add.enqueue(1, 2)
    place = {**none, "NAME": os.environ["QG_DATABASE"], "OPTIONS": {"read_default_file": path}}
    with mock.patch.dict(connections["default"].settings_dict, place):
        work()
    assert refreshed(result).return_value == 3
    with open(path, "w") as file:
        file.write("host = before a group\n")
    with pytest.raises(CommandError, match=r"my\.cnf"), mock.patch.dict(connections["default"].settings_dict, place):
        work()


def any_queue():
    """QUEUES = []: a task may name any queue; the names are checked."""
    own = {**settings.TASKS["default"], "QUEUES": []}
    with override_settings(TASKS={"default": own}):
        for wrong in ("a b", "a`b", "a.b", "a%b", "", "x" * 60):
            with pytest.raises(InvalidTask, match="queue name"):
                tasks.add.using(queue_name=wrong)
        result = tasks.add.using(queue_name="mails").enqueue(1, 2)
        work(queue=["mails"])
        assert refreshed(result).return_value == 3


def until(holds, seconds=60):
    """Wait until it holds."""
    pause, left = threading.Event(), seconds * 50
    while not holds():
        left -= 1
        assert left > 0, "it does not come to hold"
        pause.wait(0.02)


def fresh():
    """Empty tables and queues."""
    connections.settings["default"]["CONN_MAX_AGE"] = None
    with connection.cursor() as cursor:
        for name in queue_names():
            cursor.execute(f"DROP QUEUE `{name}`")
    Order.objects.all().delete()
    StoredResult.objects.all().delete()
    call_command("queuegate_tasks", create=True, stdout=io.StringIO())


CHAPTERS = (
    *(transactions, success, failure, retries, not_atomic, order, coroutines, signals, running, lost_lease),
    *(missing_results, bulk, purging, connections_between_tasks, naive_times, not_a_task, traces, admin, creation),
    *(any_queue, after_the_commit, results_not_stored, autocommit_left, addresses, shared_queues),
)


def main(names):
    logging.getLogger("queuegate_worker").setLevel(logging.WARNING)
    for chapter in CHAPTERS:
        if names and chapter.__name__ not in names:
            continue
        print(f"== {chapter.__name__}", flush=True)
        try:
            fresh()
            chapter()
            print("-- done")
        except (Exception, SystemExit):
            print("-- failed")
            traceback.print_exc(file=sys.stdout)
    connections.close_all()


if __name__ == "__main__":
    main(sys.argv[1:])
