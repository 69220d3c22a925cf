"""What a session remembers for its next poll, and for how long."""

from __future__ import annotations

from engine.model.queue import QueueCatalog, QueueName
from proxy.session.stream_memory import _RIGHTS_MAX, REMEMBERED_SECONDS, StreamMemory

Q, CATALOG = QueueName("d", "q"), QueueCatalog()


def test_a_right_holds_for_its_queue_columns_catalog_and_time() -> None:
    memory = StreamMemory()
    assert not memory.may_receive(Q, ("id",), CATALOG, 0.0)
    memory.receives(Q, ("id",), CATALOG, 5.0)
    assert memory.may_receive(Q, ("id",), CATALOG, 5.0 + REMEMBERED_SECONDS - 0.1)
    assert not memory.may_receive(Q, ("id",), CATALOG, 5.0 + REMEMBERED_SECONDS)
    assert not memory.may_receive(Q, ("id", "body"), CATALOG, 6.0)
    assert not memory.may_receive(QueueName("d", "p"), ("id",), CATALOG, 6.0)
    assert not memory.may_receive(Q, ("id",), QueueCatalog(), 6.0), "the table may be another one"


def test_a_new_catalog_and_too_many_queues_begin_anew() -> None:
    memory = StreamMemory()
    memory.receives(Q, (), CATALOG, 0.0)
    later = QueueCatalog(1)
    memory.receives(Q, ("id",), later, 0.0)
    assert not memory.may_receive(Q, (), CATALOG, 1.0) and not memory.may_receive(Q, (), later, 1.0)
    for number in range(_RIGHTS_MAX * 3):
        memory.receives(QueueName("d", f"q{number}"), (), later, 0.0)
        assert len(memory._rights) <= _RIGHTS_MAX


def test_the_character_set_is_known_until_a_statement_or_its_time() -> None:
    memory = StreamMemory()
    assert memory.charset(0.0) is None
    memory.set_charset(None, 0.0)
    assert memory.charset(1.0) == (None,), "results are not converted, and that is known"
    memory.set_charset("latin1", 0.0)
    assert memory.charset(REMEMBERED_SECONDS - 0.1) == ("latin1",)
    assert memory.charset(REMEMBERED_SECONDS) is None
    memory.set_charset("latin1", 20.0)
    memory.receives(Q, (), CATALOG, 20.0)
    memory.forget()
    assert memory.charset(20.0) is None and not memory.may_receive(Q, (), CATALOG, 20.0)
