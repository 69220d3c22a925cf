"""Rights on queues by patterns of their names."""

from __future__ import annotations

import pytest

from engine.model.queue import QueueName
from proxy.login.rights import InvalidPattern, QueueRights, Right, queue_rights


@pytest.fixture
def rights() -> QueueRights:
    return queue_rights(
        {
            "orders": [Right.ENQUEUE],
            "ord*": [Right.SETTLE],
            "billing.*": [Right.RECEIVE],
            "a.b*c": [Right.RECEIVE],
            "x+.(y|z)": [Right.RECEIVE],
        },
        "shop",
    )


def test_patterns_add_up(rights: QueueRights) -> None:
    orders = QueueName("shop", "orders")
    assert rights.holds(orders, Right.ENQUEUE)
    assert rights.holds(orders, Right.SETTLE)
    assert not rights.holds(orders, Right.RECEIVE)
    assert rights.holds(QueueName("shop", "order"), Right.SETTLE)
    assert not rights.holds(QueueName("shop", "order"), Right.ENQUEUE)


def test_a_star_is_any_characters_and_all_else_is_itself(rights: QueueRights) -> None:
    assert rights.sees(QueueName("billing", "anything\nat all"))
    assert rights.sees(QueueName("a", "bc"))
    assert rights.sees(QueueName("a", "b-c"))
    assert not rights.sees(QueueName("a", "b-c-d"))
    assert not rights.sees(QueueName("shop", "Orders"))
    assert not rights.sees(QueueName("Shop", "orders"))
    assert not rights.sees(QueueName("elsewhere", "orders"))
    assert rights.sees(QueueName("x+", "(y|z)"))
    assert not rights.sees(QueueName("xx", "y"))


def test_databases(rights: QueueRights) -> None:
    assert [rights.enters(name) for name in ("shop", "billing", "a", "mysql", "sho")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert queue_rights({"*.*": [Right.RECEIVE]}, None).enters("anything")


@pytest.mark.parametrize("pattern", ["", ".", "a.", ".a", "a.b.c", "a b", "`a`", "a\n"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="is not the name of a queue"):
        queue_rights({pattern: []}, "shop")


def test_a_name_alone_needs_a_database() -> None:
    with pytest.raises(InvalidPattern, match="needs its database before it"):
        queue_rights({"q": []}, None)
