"""Rights on queues and topics by patterns of their names."""

from __future__ import annotations

import pytest

from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec
from engine.model.topics import GroupName
from proxy.rights.account_rights import InvalidPattern, QueueRights, Right, SessionRights, TopicPermission, queue_rights


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
    assert rights.allows(orders, Right.ENQUEUE)
    assert rights.allows(orders, Right.SETTLE)
    assert not rights.allows(orders, Right.RECEIVE)
    assert rights.allows(QueueName("shop", "order"), Right.SETTLE)
    assert not rights.allows(QueueName("shop", "order"), Right.ENQUEUE)


def test_a_star_is_any_characters_and_all_else_is_itself(rights: QueueRights) -> None:
    assert rights.can_see(QueueName("billing", "anything\nat all"))
    assert rights.can_see(QueueName("a", "bc"))
    assert rights.can_see(QueueName("a", "b-c"))
    assert not rights.can_see(QueueName("a", "b-c-d"))
    assert not rights.can_see(QueueName("shop", "Orders"))
    assert not rights.can_see(QueueName("Shop", "orders"))
    assert not rights.can_see(QueueName("elsewhere", "orders"))
    assert rights.can_see(QueueName("x+", "(y|z)"))
    assert not rights.can_see(QueueName("xx", "y"))


def test_databases(rights: QueueRights) -> None:
    assert [rights.can_enter(name) for name in ("shop", "billing", "a", "mysql", "sho")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert queue_rights({"*.*": [Right.RECEIVE]}, None).can_enter("anything")


@pytest.mark.parametrize("pattern", ["", ".", "a.", ".a", "a.b.c", "a b", "`a`", "a\n"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="is not the name of a queue"):
        queue_rights({pattern: []}, "shop")


def test_a_name_alone_needs_a_database() -> None:
    with pytest.raises(InvalidPattern, match="needs its database before it"):
        queue_rights({"q": []}, None)


T, Q = QueueName("shop", "orders"), QueueName("shop", "plain")
BILLING, AUDIT = QueueName("shop", "orders_group_billing"), QueueName("shop", "orders_group_audit")
DEAD = QueueName("shop", "orders_group_billing_dead")


def catalog() -> QueueCatalog:
    def queue(name: QueueName, **options: str) -> tuple[QueueName, QueueSpec]:
        return name, QueueSpec(name, QueueOptions(**options), (), ())

    queues = dict(
        [
            queue(Q),
            queue(BILLING, topic="orders", consumer_group="billing"),
            queue(AUDIT, topic="orders", consumer_group="audit"),
            queue(DEAD, dead_letter_of="orders_group_billing"),
        ]
    )
    return QueueCatalog(1, queues, {}, {T: TopicSpec(T, ())})


def session(**topics: list[str]) -> SessionRights:
    words = {name.replace("_", "*"): [TopicPermission.parse(word) for word in given] for name, given in topics.items()}
    return SessionRights(queue_rights({}, "shop", words), catalog)


def held(rights: SessionRights) -> set[tuple[str, str]]:
    return {
        (name.table, right.value)
        for name in (T, Q, BILLING, AUDIT, DEAD)
        for right in Right
        if rights.missing(name, right) is None
    }


def test_rights_on_topics_are_rights_on_topics_alone() -> None:
    """A pattern that fits a queue as well gives nothing there, and `consume` gives one group's."""
    assert held(session(_=["publish"])) == {("orders", "enqueue")}
    assert held(session(_=["read"])) == {("orders", "receive")}
    billing = {("orders_group_billing", right) for right in ("receive", "settle")}
    assert held(session(orders=["consume:billing"])) == billing
    assert held(session(_=["consume:bill*"])) == billing
    assert held(session(orders=["consume:*"])) == billing | {("orders_group_audit", r) for r in ("receive", "settle")}
    assert held(session(order=["publish", "read", "consume:*"])) == set()
    assert held(session(orders=["manage:*"])) == set()


def test_who_has_a_right_on_a_group_knows_of_its_topic_and_its_dead_letters() -> None:
    def seen(rights: SessionRights) -> list[QueueName]:
        return [name for name in (T, Q, BILLING, AUDIT, DEAD) if rights.can_see(name)]

    assert seen(session(_=["publish"])) == seen(session(_=["read"])) == [T]
    assert seen(session(_=["consume:billing"])) == seen(session(_=["manage:billing"])) == [T, BILLING, DEAD]
    assert seen(session(other=["publish"])) == []


def test_a_topic_that_is_not_known_yet() -> None:
    """It may have been made by another proxy: what is asked of the database first is whether it is there."""
    new = QueueName("shop", "newest")
    assert session(_=["publish"]).can_see(new)
    assert session(_=["publish"]).missing(new, Right.ENQUEUE) is None
    assert session(_=["publish"]).missing(new, Right.RECEIVE) == ("receive", "queue 'shop.newest'")


def test_the_right_that_is_missing_is_named() -> None:
    rights = session(orders=["consume:billing"])
    assert rights.missing(T, Right.ENQUEUE) == ("publish", "topic 'shop.orders'")
    assert rights.missing(T, Right.RECEIVE) == ("read", "topic 'shop.orders'")
    assert rights.missing(AUDIT, Right.SETTLE) == ("consume:audit", "topic 'shop.orders'")
    assert rights.missing(Q, Right.ENQUEUE) == ("enqueue", "queue 'shop.plain'")
    assert rights.missing_to_manage(GroupName(T, "billing")) == ("manage:billing", "topic 'shop.orders'")
    assert session(orders=["manage:b*"]).missing_to_manage(GroupName(T, "billing")) is None


@pytest.mark.parametrize(
    "word", ["", "publish:", "publish:x", "read:*", "consume", "consume:", "manage:", "consume:a-b", "enqueue", "Read"]
)
def test_what_is_no_right_on_a_topic(word: str) -> None:
    with pytest.raises(ValueError):  # its text is not shown to anybody
        TopicPermission.parse(word)
