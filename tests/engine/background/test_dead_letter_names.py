"""Whose dead letters may go where (engine.background.dead_letter_names)."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import cast

import pytest
from memory_store import make_spec

from engine.background.dead_letter_names import DeadLetterNames
from engine.model.errors import BackendError
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec
from engine.store.named_dead_letters import NamedDeadLetters, Pair


def spec(name: str, **options: object) -> QueueSpec:
    return replace(make_spec(QueueName("main", name)), options=QueueOptions(**options))  # type: ignore[arg-type]


OWN, OWN_DEAD = spec("own"), spec("own_dead", dead_letter_of="own")
BARE = spec("bare")  # its dead-letter queue is still to be made, under its own name
NAMING, SHARED = spec("naming", dead_letter="shared"), spec("shared")
EARLY = spec("early", dead_letter="not_made_yet")
TAKEN, TAKEN_DEAD = spec("taken"), spec("taken_dead")
STOLEN = spec("stolen", dead_letter="own_dead")
ALL = (OWN, OWN_DEAD, BARE, NAMING, SHARED, EARLY, TAKEN, TAKEN_DEAD, STOLEN)
CATALOG = QueueCatalog(1, {queue.name: queue for queue in ALL})
ANOTHERS = {"naming": "shared", "early": "not_made_yet", "taken": "taken_dead", "stolen": "own_dead"}


class Table:
    """As NamedDeadLetters, in memory. `fault`: what everything fails with."""

    def __init__(self) -> None:
        self.pairs: set[Pair] = set()
        self.taken_over = False
        self.fault: BackendError | None = None
        self.asked = 0

    def _check(self) -> None:
        self.asked += 1
        if self.fault is not None:
            raise self.fault

    async def take_over(self, pairs: Collection[Pair]) -> int:
        self._check()
        if self.taken_over:
            return 0
        self.pairs |= set(pairs)
        self.taken_over = True
        return len(pairs)

    async def add(self, queue: QueueName, dead: QueueName) -> None:
        self._check()
        self.pairs.add((queue, dead))

    async def has(self, queue: QueueName, dead: QueueName) -> bool:
        self._check()
        return (queue, dead) in self.pairs

    async def all(self) -> set[Pair]:
        self._check()
        return self.pairs

    async def forget(self, queue: QueueName) -> None:
        self._check()
        self.pairs = {pair for pair in self.pairs if pair[0] != queue}


def names_of(table: Table) -> DeadLetterNames:
    return DeadLetterNames(cast(NamedDeadLetters, table), logging.getLogger("test"))


async def allowed(names: DeadLetterNames) -> set[str]:
    return {queue.name.table for queue in ALL if await names.allows(queue, CATALOG)}


async def test_what_was_named_is_allowed_and_nothing_else():
    table = Table()
    table.taken_over = True
    names = names_of(table)
    theirs = {queue.name.table for queue in ALL} - ANOTHERS.keys()
    assert await allowed(names) == theirs
    problems = await names.problems(CATALOG)
    assert {name.table for name in problems} == ANOTHERS.keys()
    for name, text in problems.items():
        assert f"'{ANOTHERS[name.table]}' was named" in text and f"ALTER QUEUE `{name.table}` SET" in text
    await names.add(NAMING.name, SHARED.name)
    assert await allowed(names) == theirs | {"naming"}
    assert {name.table for name in await names.problems(CATALOG)} == ANOTHERS.keys() - {"naming"}
    await names.forget(NAMING.name)
    assert await allowed(names) == theirs


async def test_what_comments_said_is_taken_over_once(caplog):
    table = Table()
    await names_of(table).begin(CATALOG)
    assert {queue.table: dead.table for queue, dead in table.pairs} == ANOTHERS
    table.pairs.clear()
    names = names_of(table)
    await names.begin(CATALOG)
    assert not table.pairs
    assert await names.problems(CATALOG)


async def test_where_the_table_cannot_be_had_it_is_tried_again_when_it_is_needed(caplog):
    table = Table()
    table.fault = BackendError("CREATE command denied", 1142, "42000")
    names = names_of(table)
    await names.begin(CATALOG)
    assert "CREATE command denied" in caplog.text
    with pytest.raises(BackendError):
        await names.allows(NAMING, CATALOG)
    assert await names.allows(OWN, CATALOG)
    await names.add(NAMING.name, SHARED.name)  # the statement has succeeded: no error
    table.fault = None
    assert await names.allows(NAMING, CATALOG)
    assert table.taken_over


async def test_what_is_ones_own_costs_no_statement():
    table = Table()
    names = names_of(table)
    own = QueueCatalog(1, {queue.name: queue for queue in (OWN, OWN_DEAD, BARE)})
    await names.begin(own)
    before = table.asked
    assert await names.allows(OWN, own) and await names.allows(BARE, own) and not await names.problems(own)
    assert table.asked == before


async def test_without_a_table_all_is_trusted():
    names = DeadLetterNames()
    await names.begin(CATALOG)
    assert len(await allowed(names)) == len(ALL) and not await names.problems(CATALOG)
    await names.add(NAMING.name, SHARED.name)
    await names.forget(NAMING.name)
