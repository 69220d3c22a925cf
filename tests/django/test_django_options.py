"""OPTIONS of the backend for Django, and what a handler says of a message it settles itself; no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from queuegate_django.options import Options, options_of


def test_defaults():
    options = options_of("default", {}, ["default"])
    assert options == Options()
    assert options.table("mails") == "tasks_mails"
    assert options.queue_options == {"max_attempts": 20, "purge_after": "1h"}


def test_all_options():
    given = {
        "prefix": "", "database": "queues", "atomic": False, "max_attempts": 3, "keep_results": 60,
        "queue_options": {"max_backoff": "10m"}, "traces": True,
    }  # fmt: skip
    options = options_of("default", given, [])
    assert options.table("a-b_$1") == "a-b_$1"
    assert options.keep_results == timedelta(minutes=1)
    assert options.queue_options == {"max_attempts": 20, "purge_after": "1h", "max_backoff": "10m"}
    assert options.traces and not options.atomic


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"prefx": "a"}, "there is no option prefx; there are prefix, database"),
        ({"prefix": "a`b"}, "prefix is 'a`b'"),
        ({"prefix": 3}, "prefix is 3"),
        ({"database": None}, "database is None"),
        ({"atomic": 1}, "atomic is 1"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"max_attempts": True}, "max_attempts is True"),
        ({"max_attempts": 1.5}, "max_attempts is 1.5"),
        ({"keep_results": 0}, "at least a second"),
        ({"keep_results": "1d"}, "keep_results is '1d'"),
        ({"keep_results": float("nan")}, "keep_results is nan"),
        ({"keep_results": float("-inf")}, "keep_results is -inf"),
        ({"max_attempts": 21}, "max_attempts is 21, but a queue delivers 20 times: give queue_options"),
        ({"max_attempts": 6, "queue_options": {"max_attempts": "4"}}, "delivers 4 times"),
        ({"queue_options": []}, "it is a dict"),
        ({"queue_options": {"a b": 1}}, "'a b', which is no option"),
        ({"queue_options": {"message_cols": "id"}}, "set by the backend"),
        ({"queue_options": {"max_attempts": None}}, "it is a text or a whole number"),
        ({"traces": 3}, "traces is 3"),
        ({"prefix": "x" * 58}, "more than 59"),
    ],
)
def test_wrong_options_are_refused(given, text):
    with pytest.raises(ImproperlyConfigured, match="TASKS\\['jobs'\\]") as refused:
        options_of("jobs", given, ["default"])
    assert text in str(refused.value)


@pytest.mark.parametrize("age", [timedelta.max, timedelta(days=800_000), float("inf"), 10**400])
def test_results_may_stay_for_ever(age):
    kept = options_of("default", {"keep_results": age}, []).keep_results
    assert kept >= timedelta(days=36_500) and datetime.now(UTC) - kept


@pytest.mark.parametrize("deliveries", [0, "0", 21, "21"])
def test_a_queue_delivers_as_often_as_a_task_is_tried(deliveries):
    given = {"max_attempts": 21, "queue_options": {"max_attempts": deliveries}}
    assert options_of("default", given, []).max_attempts == 21


@pytest.mark.parametrize("name", ["", "x_dead", "a b", "a.b", "a`b", "a%b", "é", "x" * 31])
def test_wrong_names_of_queues_are_refused(name):
    with pytest.raises(ValueError, match="queue name"):
        Options().table(name)
    with pytest.raises(ImproperlyConfigured):
        options_of("default", {}, [name])


def test_ids_of_results_are_as_short_as_django_says():
    longest = "x" * 30
    assert Options().table(longest) == f"tasks_{longest}"
    assert len(f"{longest}:{'0' * 32}") < 64
