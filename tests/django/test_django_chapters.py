"""A Django project whose tasks are in queuegate: transactions, results, retries, signals, admin and commands.

The project is in project/. Each of its chapters is a test here, with Django 6 and with the backport for Django 5.2.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from django_environments import PROJECT, WHERE, python_with, variables
from slowness import scaled

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.parametrize(("django", "place"), WHERE, indirect=["place"]),
]


@pytest.fixture(scope="module")
def told() -> dict:
    """What the program printed, by place and Django, and there by chapter."""
    return {}


@pytest.fixture
def chapters(told, new_gate, place, django, tmp_path) -> dict[str, str]:
    """Run by the first test that needs them."""
    key = (place, django)
    if key not in told:
        environment = variables(new_gate().start(), QG_FOLDER=str(tmp_path))
        done = subprocess.run(
            [python_with(django), PROJECT / "chapters.py"], env=environment, capture_output=True, text=True,
            timeout=scaled(240), check=False,
        )  # fmt: skip
        parts = re.split(r"^== (\w+)\n", done.stdout, flags=re.MULTILINE)
        told[key] = dict(zip(parts[1::2], parts[2::2], strict=True)) or {"": done.stderr}
        told[key]["stderr"] = done.stderr
    return told[key]


@pytest.fixture
def chapter(chapters):
    def read(name):
        text = chapters.get(name, "the chapter was not begun\n" + chapters["stderr"][-3000:])
        assert text.rstrip().endswith("-- done") and "-- failed" not in text, text + chapters["stderr"][-2000:]

    return read


def test_a_task_is_one_insert_in_the_applications_transaction(chapter):
    chapter("transactions")


def test_all_that_a_result_says(chapter):
    chapter("success")


def test_a_failed_task_is_rolled_back_and_a_dead_letter(chapter):
    chapter("failure")


def test_max_attempts(chapter):
    chapter("retries")


def test_without_a_transaction(chapter):
    chapter("not_atomic")


def test_priorities_and_run_after(chapter):
    chapter("order")


def test_coroutines(chapter):
    chapter("coroutines")


def test_signals(chapter):
    chapter("signals")


def test_a_result_while_the_task_runs(chapter):
    chapter("running")


def test_a_lost_lease_commits_nothing(chapter):
    chapter("lost_lease")


def test_results_that_are_not_there(chapter):
    chapter("missing_results")


def test_many_tasks_at_once(chapter):
    chapter("bulk")


def test_old_results_are_deleted(chapter):
    chapter("purging")


def test_connections_are_closed_as_between_requests(chapter):
    chapter("connections_between_tasks")


def test_without_time_zones(chapter):
    chapter("naive_times")


def test_a_message_that_is_no_task(chapter):
    chapter("not_a_task")


def test_traceparent(chapter):
    chapter("traces")


def test_the_admin(chapter):
    chapter("admin")


def test_queues_are_created(chapter):
    chapter("creation")


def test_any_name_of_a_queue(chapter):
    chapter("any_queue")


def test_an_error_after_the_commit(chapter):
    chapter("after_the_commit")


def test_a_result_that_cannot_be_stored(chapter):
    chapter("results_not_stored")


def test_a_task_that_leaves_autocommit_off(chapter):
    chapter("autocommit_left")


def test_where_a_worker_connects(chapter):
    chapter("addresses")


def test_backends_that_share_a_queue(chapter):
    chapter("shared_queues")
