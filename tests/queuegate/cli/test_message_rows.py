"""Messages as `peek` shows them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from engine.model.states import PARKED_NS, REJECTED_NS
from queuegate.cli.message_rows import message, message_object, message_table
from queuegate.cli.tables import width

NOW = 1_700_000_000_000_000_000
MINUTE = 60_000_000_000


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({"time_next": NOW}, "ready"),
        ({"time_next": None}, "ready"),
        ({"time_next": 0, "epoch": 3}, "ready"),
        ({"time_next": NOW + MINUTE + 1, "epoch": 1}, "in_flight"),
        ({"time_next": NOW + MINUTE, "epoch": 1}, "retrying"),
        ({"time_next": NOW + MINUTE, "epoch": 0}, "scheduled"),
        ({"time_next": NOW + MINUTE + 1, "epoch": 0}, "scheduled"),
        ({"time_next": PARKED_NS}, "parked"),
        ({"time_next": REJECTED_NS, "epoch": 1}, "rejected"),
        ({"time_next": None, "time_acked": NOW}, "acked"),
        ({"time_next": NOW, "state": "dead"}, "dead"),
    ],
)
def test_states(row, state):
    assert message({"id": 1, **row}, NOW).state == state


def test_an_object_is_whole_and_can_be_written():
    row = {
        "id": 7, "priority": 50, "time_next": NOW, "time_created": NOW, "epoch": 0, "time_acked": None,
        "first_error": None, "last_error": "x", "body": "y" * 5000, "raw": b"\xff", "text": b"abc",
        "price": Decimal("1.50"), "at": datetime(2026, 1, 2, 3, 4, 5), "long": timedelta(hours=-10, microseconds=-5),
        "state": "to_be_fired",
    }  # fmt: skip
    made = json.loads(json.dumps(message_object(message(row, NOW))))
    assert list(made) == [
        "id", "state", "epoch", "priority", "due", "created", "acked", "first_error", "last_error",
        "failed_attempts", "columns",
    ]  # fmt: skip
    assert made["columns"] == {
        "body": "y" * 5000, "raw": {"hex": "ff"}, "text": "abc", "price": "1.50", "at": "2026-01-02 03:04:05",
        "long": "-10:00:00.000005",
    }  # fmt: skip
    assert datetime.fromisoformat(made["due"]).timestamp() == NOW // 10**9


def test_a_table_fits_and_does_nothing():
    rows = [
        message({"id": n, "time_next": NOW, "epoch": n, "body": "\x1b[2J" + "日" * 500, "raw": b"\xff\x00"}, NOW)
        for n in range(3)
    ]
    made = message_table(rows, 80).splitlines()
    assert len(made) == 4
    assert all(width(line) <= 80 and line.isprintable() for line in made)
    assert "\\x1b[2J" in made[1] and made[1].endswith("0xff00") and "..." in made[1]


def test_a_text_that_was_cut_within_a_character_is_a_text():
    made = message_table([message({"id": 1, "body": "größe".encode()[:3]}, NOW)], 80)
    assert made.splitlines()[1].endswith("gr")
