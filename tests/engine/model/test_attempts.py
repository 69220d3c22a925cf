"""The array of failed attempts: what is added, what is left, what is read."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.model.attempts import (
    EXPIRED,
    describe_failure,
    failure,
    failures,
    member,
    receiver_members,
    request_members,
    with_failure,
)
from engine.model.queue import ReceiverIdentity

AT = 1_764_097_200_123_456_001
REQUEST = ReceiverIdentity(connection_id=42, user="app", host="10.0.0.7:51324", consumer='mailer "3"')


def test_an_object():
    assert json.loads(failure(2, AT, EXPIRED, REQUEST)) == {
        "attempt": 2,
        "at": "2025-11-25 19:00:00.123456",
        "outcome": "lease expired",
        "receiver": 'mailer "3"',
        "user": "app@10.0.0.7",
        "connection": 42,
    }


def test_what_is_not_known_is_left_out():
    assert json.loads(failure(1, 0, EXPIRED, None)) == {
        "attempt": 1,
        "at": "1970-01-01 00:00:00.000000",
        "outcome": "lease expired",
    }
    assert receiver_members("", "app@h", 0) == ', "user": "app@h"'
    assert request_members(None) == ""


@given(st.lists(st.text(), max_size=12), st.integers(1, 5))
def test_the_last_are_kept_whatever_they_say(errors, most):
    kept = None
    for attempt, error in enumerate(errors, 1):
        kept = with_failure(kept, f'{{"attempt": {attempt}{member("error", error)}}}', most)
        found = json.loads(kept)
        assert [each["attempt"] for each in found] == list(range(max(1, attempt - most + 1), attempt + 1))
        assert found == failures(kept)
        assert found[-1].get("error", "") == error
        assert kept.count("\n") == len(found) - 1


def test_what_is_no_such_array_begins_anew():
    for kept in ("", "[]", "null", "[1]", '{"attempt": 1}', "[{", "[{}"):
        assert with_failure(kept, '{"attempt": 1}', 10) == '[{"attempt": 1}]'
    for text in ("", "{", "null", "7", '{"attempt": 1}', "[" * 100_000, '[{"a": ' * 100_000):
        assert failures(text) == []


def test_fields_that_no_failure_has_are_left_out():
    stored = '[{"attempt": 1, "error": "a\\ud800b", "x": NaN, "y": 1.5, "z": [[]], "n": null, "\\udfff": {}}]'
    assert failures(stored) == [{"attempt": 1, "error": "a?b"}]


def test_words():
    assert describe_failure(json.loads(failure(2, AT, EXPIRED, REQUEST))) == (
        'lease expired at 2025-11-25 19:00:00.123456 by mailer "3" (app@10.0.0.7, connection 42)'
    )
    told = {"outcome": "nacked", "at": "x", "connection": 7, "error": "HTTP 429"}
    assert describe_failure(told) == "nacked at x by (connection 7): HTTP 429"
    assert describe_failure({}) == "failed at ?"
