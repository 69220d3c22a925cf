"""A group without streams costs a commit nothing: only groups that may have streams hear of it."""

from __future__ import annotations

import pytest
from memory_store import COLUMNS
from memory_topics import TOPIC, make_group, make_topic
from virtual_time import in_virtual_time, settle
from world import World, world

from engine.delivery.message_manager import MessageManager
from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName, SubscribeRequest

BILLING, AUDIT = (make_group(TOPIC, name, COLUMNS) for name in ("billing", "audit"))


async def committed(w: World, told: list[QueueName]) -> list[QueueName]:
    """Which queues heard of a commit into the topic."""
    told.clear()
    w.engine.committed(CommitReport(touched=frozenset((TOPIC,))))
    await settle()
    return list(told)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[QueueName]:
    """Managers that were touched."""
    found: list[QueueName] = []
    touched = MessageManager.touched

    def noted(self: MessageManager) -> bool:
        found.append(self.queue.name)
        return touched(self)

    monkeypatch.setattr(MessageManager, "touched", noted)
    return found


@in_virtual_time
async def test_only_groups_with_streams_hear_of_a_commit(told: list[QueueName]) -> None:
    async with world() as w:
        w.store.serve(BILLING, AUDIT, topics=[make_topic()])
        await w.engine.catalog_changed()
        assert await committed(w, told) == []
        member, other = await w.receive(BILLING.name), await w.receive(BILLING.name)
        assert await committed(w, told) == [BILLING.name]
        await member.close()
        assert await committed(w, told) == [BILLING.name]
        await other.close()
        await committed(w, told)  # by this one it is found out
        assert await committed(w, told) == []
        await w.receive(BILLING.name)
        await w.receive(AUDIT.name)
        assert await committed(w, told) == [BILLING.name, AUDIT.name]


@in_virtual_time
async def test_a_member_that_does_not_read_yet_keeps_its_group_awake(told: list[QueueName]) -> None:
    async with world() as w:
        w.store.serve(BILLING, topics=[make_topic()])
        await w.engine.catalog_changed()
        subscription = await w.engine.subscribe(SubscribeRequest(BILLING.name))
        for _ in range(2):
            assert await committed(w, told) == [BILLING.name]
        await subscription.close(release=False)
