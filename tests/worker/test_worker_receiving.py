"""How a worker receives: what its receiver asks for, gives to slots and gives back, and how it connects anew; no
network."""

from __future__ import annotations

import threading
from dataclasses import replace

import pymysql
import pytest
from worker_fakes import GONE, STATEMENTS, FakeProxy, Told, rows

from queuegate_worker import Hooks, WorkerError
from queuegate_worker.connection import Connection
from queuegate_worker.free_slots import FreeSlots, Pace
from queuegate_worker.heartbeat import InFlight
from queuegate_worker.receiver import Receiver, connect_attempts
from queuegate_worker.shared import Shared

KEEPALIVE = "SHOW SESSION VARIABLES LIKE 'wait_timeout'"


class Receiving:
    """A receiver of two slots, which does what a test says at its pauses and its hand-overs."""

    def __init__(self, proxy, drain=True, batch=2):
        self.proxy, self.told, self.pauses, self.batches, self.away = proxy, Told(), [], [], []
        self.free_slots, self.now = FreeSlots(2), 0.0
        shared = Shared(
            STATEMENTS, self.told, InFlight(), self.free_slots, Pace(2, 2), clock=lambda: self.now,
            pause=self.pauses.append, pause_receiving=self.pauses.append, fail=self.away.append,
        )  # fmt: skip
        self.receiver = Receiver(
            Connection(proxy.connect, 9), shared, ["id", "n", "epoch"], batch=batch, drain=drain,
            dispatch=self.begin, on_reconnect=lambda: self.away.append(1),
        )  # fmt: skip

    def begin(self, batch):
        self.batches.append([message.id for message in batch])
        self.free_slots.release(batch)


def test_it_asks_for_what_its_slots_can_begin_with_and_cuts_it_into_batches():
    receiving = Receiving(FakeProxy(SELECT=(rows(1, 2, 3), rows(4), [])))
    receiving.receiver.run()
    assert receiving.batches == [[1, 2], [3], [4]]
    assert all("LIMIT 4 NOWAIT" in sql for sql in receiving.proxy.sent)


def test_it_connects_anew_with_growing_pauses_and_then_has_leases_looked_at():
    """A poll of a quiet queue is answered late, so a statement before it tells that the proxy is back."""
    receiving = Receiving(FakeProxy(SELECT=(GONE, GONE, [], rows(1), [])))
    receiving.receiver.run()
    assert receiving.batches == [[1]] and receiving.away == [1] and receiving.proxy.connected == 3
    assert ["LIMIT 0" in sql for sql in receiving.proxy.sent] == [False, True, True, False, False]
    assert [0.05, 0.1] <= receiving.pauses <= [0.1, 0.2] and receiving.told.said == [
        ("reconnecting", "OperationalError")
    ] * 2


def test_it_ends_for_what_waiting_does_not_mend():
    receiving = Receiving(FakeProxy(SELECT=pymysql.err.ProgrammingError(1146, "Queue 'main.q' doesn't exist")))
    with pytest.raises(WorkerError, match="1146"):
        receiving.receiver.run()


def test_draining_it_gives_up_a_proxy_that_stays_away():
    receiving = Receiving(FakeProxy(SELECT=GONE))
    with pytest.raises(WorkerError, match=r"q: .*Lost connection.*waits no longer"):
        receiving.receiver.run()
    assert 10 < sum(receiving.pauses) <= 30


@pytest.mark.parametrize("drain", [True, False])
def test_a_first_connection_that_stays_away_ends_a_worker_that_drains(drain):
    pauses = []

    def connected():
        for failed in connect_attempts(pauses.append, Hooks(), "h", lambda: len(pauses) > 50, drain=drain):
            failed(ConnectionRefusedError("no"))

    if not drain:
        connected()
        assert len(pauses) == 51
        return
    with pytest.raises(WorkerError, match="h: no"):
        connected()
    assert 10 < sum(pauses) <= 30


def test_what_comes_while_it_is_stopped_is_given_back():
    receiving = Receiving(FakeProxy(), drain=False)

    def answer(sql):
        if sql.startswith("SELECT"):
            assert receiving.receiver.polling_id == 77
            receiving.receiver.stop()
            return rows(1, 2)
        return 2

    receiving.proxy.said = answer
    receiving.receiver.run()
    assert receiving.batches == [] and receiving.told.said == [("released", 1), ("released", 2)]
    assert receiving.proxy.sent[-1] == "RELEASE `q` WHERE id IN (1, 2) AND epoch = 1"


def test_an_empty_poll_that_ends_early_is_no_busy_loop():
    receiving = Receiving(FakeProxy(SELECT=([],)), drain=False)

    def pause(seconds):
        receiving.pauses.append(seconds)
        receiving.receiver.stop()

    receiving.receiver._shared = replace(receiving.receiver._shared, pause_receiving=pause)
    receiving.receiver.run()
    assert receiving.pauses == [0.1]


def test_short_handlers_have_messages_received_ahead_and_long_ones_none():
    pace = Pace(2, 5)
    assert pace.ahead == 0, "nothing is known yet"
    pace.received(200)
    pace.handled(0.01)
    assert pace.ahead == 2 * 5 * 5
    pace.handled(2.0)
    assert pace.ahead == 0, "a handler that gets slow counts at once"
    for _ in range(100):
        pace.handled(0.0)
    assert pace.ahead == 400
    pace.received(1 << 20)
    assert pace.ahead == 4, "of large messages no more than 4 MiB wait"


def test_it_asks_for_more_than_its_slots_where_handlers_are_short():
    receiving = Receiving(FakeProxy(SELECT=(rows(1), rows(2, 3, 4, 5, 6, 7), [])), batch=1)
    receiving.receiver._shared.pace.handled(0.025)
    receiving.receiver.run()
    assert [" LIMIT 2 " in sql for sql in receiving.proxy.sent] == [True, False, False], "their size is not known yet"
    assert " LIMIT 10 " in receiving.proxy.sent[1], "what two slots handle in 50 ms, in batches of two"
    assert receiving.batches == [[n] for n in range(1, 8)]


def test_what_no_slot_takes_in_time_is_given_back():
    receiving = Receiving(FakeProxy(SELECT=(rows(1, 2, 3, 4), [])), drain=False, batch=1)

    def begin(batch):
        receiving.batches.append([message.id for message in batch])
        if receiving.free_slots.wait(0) == 0:
            threading.Timer(1.0, receiving.receiver.stop).start()

    receiving.receiver._dispatch = begin
    receiving.receiver.run()
    assert receiving.batches == [[1], [2]] and receiving.told.said == [("released", 3), ("released", 4)]
    assert "RELEASE `q` WHERE id IN (3, 4) AND epoch = 1" in receiving.proxy.sent
    assert len(receiving.receiver._shared.in_flight) == 2


def waits_without_a_slot(receiving, count):
    """For how long it waits for a slot each time, while its connection is open and none is free."""
    waits = []

    def wait(seconds=None):
        waits.append(seconds)
        if len(waits) >= count:
            receiving.receiver.stop()
        return 0

    receiving.receiver._connection.columns("SELECT 1")  # it is open
    receiving.free_slots.wait = wait
    receiving.receiver.run()
    return waits


@pytest.mark.parametrize(("wait_timeout", "seconds"), [("6", 2), ("28800", 20)])
def test_while_no_slot_is_free_the_connection_says_something(wait_timeout, seconds):
    """It owns the leases of what is being handled, and a server closes one that is silent for too long."""
    receiving = Receiving(FakeProxy(SHOW=[{"Variable_name": "wait_timeout", "Value": wait_timeout}]), drain=False)
    waits = waits_without_a_slot(receiving, 3)
    assert waits == [0.5, seconds, seconds] and receiving.proxy.sent[1:] == [KEEPALIVE] * 2


def test_while_no_slot_is_free_a_lost_connection_is_replaced():
    answers = {"SHOW": (GONE, [{"Variable_name": "wait_timeout", "Value": "6"}]), "SELECT": ([], GONE, [])}
    receiving = Receiving(FakeProxy(**answers), drain=False)
    waits = waits_without_a_slot(receiving, 4)
    assert waits == [0.5, 0, 0, 2] and len(receiving.pauses) == 2 and receiving.proxy.connected == 3
    assert receiving.away == [1] and receiving.told.said == [("reconnecting", "OperationalError")] * 2
