"""Turns to log in: which address is next, and who loses a turn, with a clock of our own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from slowness import scaled

from proxy.listen.login_turns import SILENT_SECONDS, LoginTurns


@dataclass(eq=False)
class Client:
    """A client that has not logged in."""

    source: str
    silent_since: float | None = None


@dataclass
class Room:
    """Turns for so many clients, and who was hung up on."""

    total: int
    per_source: int
    now: float = 1000.0
    taken: int = 0
    dropped: list[Client] = field(default_factory=list)

    def turns(self) -> LoginTurns[Client]:
        return LoginTurns(self.per_source, self._take, self._give, self.dropped.append, lambda: self.now)

    def _take(self) -> bool:
        if self.taken == self.total:
            return False
        self.taken += 1
        return True

    def _give(self) -> None:
        self.taken -= 1


def crowd(turns: LoginTurns[Client], source: str, count: int, silent_since: float | None = None):
    clients = [Client(source, silent_since) for _ in range(count)]
    return [(client, turns.request(client)) for client in clients]


async def test_one_address_gets_its_share_and_leaves_the_rest_to_others():
    room = Room(10, 4)
    turns = room.turns()
    many = crowd(turns, "a", 50)
    assert [turn.done() for _, turn in many] == [True] * 4 + [False] * 46
    assert all(turn.done() for _, turn in crowd(turns, "b", 4))
    assert not room.dropped
    turns.leave(many[0][0])
    assert many[4][1].done(), "in the order in which they came"
    assert room.taken == 8


async def test_who_is_silent_makes_room_for_whoever_came_last():
    room = Room(10, 4)
    turns = room.turns()
    silent = crowd(turns, "a", 50, silent_since=room.now)
    room.now += SILENT_SECONDS / 2
    (newcomer, turn) = crowd(turns, "a", 1)[0]
    assert not turn.done() and not room.dropped
    turns.leave(newcomer)
    room.now += SILENT_SECONDS
    silent[0][0].silent_since = room.now  # it has talked
    (newcomer, turn) = crowd(turns, "a", 1)[0]
    assert turn.done()
    assert silent[1][0] in room.dropped and silent[0][0] not in room.dropped


async def test_who_talks_or_waits_for_us_keeps_its_turn():
    room = Room(4, 4)
    turns = room.turns()
    busy = crowd(turns, "a", 4, silent_since=None)
    room.now += 100
    (_, turn) = crowd(turns, "b", 1)[0]
    assert not turn.done() and not room.dropped
    turns.leave(busy[2][0])
    assert turn.done()


async def test_where_all_turns_are_taken_the_address_with_the_most_gives_one():
    room = Room(6, 4)
    turns = room.turns()
    crowd(turns, "few", 2, silent_since=room.now - 50)
    many = crowd(turns, "many", 4, silent_since=room.now - 10)
    (_, turn) = crowd(turns, "c", 1)[0]
    assert turn.done()
    assert room.dropped == [many[0][0]]


async def test_the_address_with_the_fewest_turns_is_next():
    room = Room(4, 4)
    turns = room.turns()
    held = crowd(turns, "a", 4)
    waiting_a, waiting_b = crowd(turns, "a", 3), crowd(turns, "b", 1)
    turns.leave(held[0][0])
    assert waiting_b[0][1].done()
    turns.leave(held[1][0])
    assert waiting_a[0][1].done() is True


async def test_a_silence_is_noticed_though_nothing_else_happens(monkeypatch):
    room = Room(1, 1)
    turns = room.turns()
    crowd(turns, "a", 1, silent_since=room.now)
    (_, turn) = crowd(turns, "b", 1)[0]
    room.now += SILENT_SECONDS + 0.1
    async with asyncio.timeout(scaled(20)):
        await turn


async def test_whom_to_hang_up_on_where_all_places_are_taken():
    room = Room(2, 2)
    turns = room.turns()
    assert turns.to_make_room_for("a") is None
    many = crowd(turns, "a", 10)
    for source in ("a", "b"):
        assert turns.to_make_room_for(source) is many[2][0], "who waits for longest of those that are many"
    many[1][0].silent_since = room.now - 2 * SILENT_SECONDS
    assert turns.to_make_room_for("a") is many[1][0]
    for client, _ in many:
        turns.leave(client)
    assert room.taken == 0
