"""Which ids a condition limits a statement to."""

from __future__ import annotations

import pytest

from engine.model.queue import MessageId
from rewriter.scan.named_ids import KeyKind, delivery_ids, names_ids, settled_ids


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (b" id = 5", (5,)),
        (b" id=5;", (5,)),
        (b" `id` IN (1, 2 ,3)", (1, 2, 3)),
        (b" `shop`.`q`.ID in(1)/* so */ ; ", (1,)),
        (b" id = '7'", (7,)),
        (b" id IN (1) AND time_acked IS NULL", (1,)),
        (b" id IN (1) AND q.`time_acked` is  null -- end", (1,)),
        (b" id = 18446744073709551615", (18446744073709551615,)),
        (b" id = 5.0", None),
        (b" id = -5", None),
        (b" id = 0x5", None),
        (b" id = 5 OR 1", None),
        (b" id = 5 AND user_id = 3", None),
        (b" id = 5 AND time_acked IS NOT NULL", None),
        (b" id IN (1, ?)", None),
        (b" id IN ()", None),
        (b" id IN (SELECT 1)", None),
        (b" id = 5 LIMIT 1", None),
        (b" user_id = 5", None),
        (b" NOT id = 5", None),
        (b" id = '5' '6'", None),
        (b" id = 'a'", None),
        (b" id = '\xb2'", None),
        (b" id = 123456789012345678901234567890", None),
    ],
)
def test_integer_keys(condition: bytes, ids: tuple[MessageId, ...] | None) -> None:
    assert settled_ids(condition, KeyKind.INTEGER) == ids


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (b" id = 'a-1'", ("a-1",)),
        (b" id IN ('a', 'b')", ("a", "b")),
        (b" id = 5", None),
        (b" id = 'it''s'", None),
        (b" id = 'a\\'b'", None),
        ("id = 'größe'".encode(), None),
    ],
)
def test_text_keys(condition: bytes, ids: tuple[MessageId, ...] | None) -> None:
    assert settled_ids(condition, KeyKind.TEXT) == ids


def test_other_keys_are_never_certain() -> None:
    assert settled_ids(b"id = 'a'", KeyKind.OTHER) is None


def test_one_delivery_of_a_message_is_named_by_its_id_and_epoch():
    """A statement on it is led to the primary key; whether it ends the message, its affected rows alone say."""
    for condition in (
        "id = 7 AND epoch = 2", "id IN (7, 8) AND epoch = 2", "id = ? AND epoch = ?", "`id`='x' AND `epoch`=1",
        "q.id = 7 AND q.epoch = 2 AND q.time_acked IS NULL",
    ):  # fmt: skip
        assert names_ids(condition), condition
        assert settled_ids(condition.encode(), KeyKind.INTEGER) is None
    for condition in ("id = 7 AND epoch > 2", "id = 7 AND epoch = 2 OR n = 1", "epoch = 2", "id = 7 AND epoch = n"):
        assert not names_ids(condition), condition


def test_or_by_its_lease_token():
    for condition in (
        "id = 7 AND lease_token = 2", "id IN (7, 8) AND lease_token = 2", "id = ? AND lease_token = ?",
        "`id` = 'x' AND `lease_token`=1", "q.id = 7 AND q.lease_token = 2 AND q.time_acked IS NULL",
    ):  # fmt: skip
        assert names_ids(condition), condition
        assert settled_ids(condition.encode(), KeyKind.INTEGER) is None
    for condition in (
        "id = 7 AND lease_token > 2", "id = 7 AND lease_token = 2 OR n = 1", "lease_token = 2",
        "id = 7 AND lease_token = 2 OR", "id = 7 AND lease_token = 2 OR id = 8", "id = 7 AND `lease_token = 2`",
        "id = 7 AND lease_token = 2 AND n = 1 OR id = 7 AND lease_token = 2",
    ):  # fmt: skip
        assert not names_ids(condition), condition


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (b"id = 7 AND lease_token = 2", (7,)),
        (b"id IN (7, 8) AND lease_token = 1795829219837305", (7, 8)),
        (b"id = 7 AND lease_token = 2 OR id = 8 AND lease_token = 3", None),
        (b"id = 7 AND lease_token = 2 OR id = ? AND lease_token = 3", None),
        (b"id = 7 AND lease_token = ?", None),
        (b"id = 7 AND lease_token = 2 OR id = 'x' AND lease_token = 3", None),
        (b"id = 7 AND lease_token = 2 OR", None),
        (b"id = 7 OR id = 8", None),
    ],
)
def test_the_deliveries_that_a_condition_names(condition: bytes, ids: tuple[MessageId, ...] | None) -> None:
    assert delivery_ids(condition, KeyKind.INTEGER) == ids
