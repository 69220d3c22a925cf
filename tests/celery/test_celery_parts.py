"""The parts that need no network: answers from bytes, what is held, what is owed, and when leases are prolonged."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from amqp.exceptions import AccessRefused, RecoverableConnectionError
from hypothesis import given
from hypothesis import strategies as st

from queuegate_celery import sources
from queuegate_celery.errors import RETRY_SECONDS, Unavailable
from queuegate_celery.messages import Delivery
from queuegate_celery.mysql_client.answers import AnswerReader
from queuegate_celery.mysql_client.packets import MalformedAnswer, parse_error
from queuegate_celery.renewal import ACK_SECONDS, AWAKE_SECONDS, LISTENER_SECONDS, Renewal
from queuegate_celery.settings import Address, Settings
from queuegate_celery.settlement import Settlement
from queuegate_celery.unsettled import IDS_MAX, UnsentAcks, Unsettled, UnsettledDelivery, conditions

EOF = b"\xfe\x00\x00\x02\x00"


def packets(*payloads: bytes) -> bytes:
    """As a server numbers and splits them."""
    data, number = b"", 1
    for payload in payloads:
        for at in range(0, len(payload) + 1, 0xFFFFFF):
            part = payload[at : at + 0xFFFFFF]
            data += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
            number += 1
    return data


def text(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    length = len(value)
    if length < 251:
        return bytes([length]) + value
    if length < 1 << 16:
        return b"\xfc" + length.to_bytes(2, "little") + value
    return (
        b"\xfd" + length.to_bytes(3, "little") + value
        if length < 1 << 24
        else b"\xfe" + length.to_bytes(8, "little") + value
    )


def result(rows: list[list[bytes | None]], end: bytes = EOF) -> bytes:
    return packets(b"\x02", b"first", b"second", EOF, *(b"".join(map(text, row)) for row in rows), end)


@given(
    st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=600)), min_size=2, max_size=2), max_size=5),
    st.integers(1, 64),
)
def test_rows_arrive_in_pieces_of_any_size(rows, size):
    answer, data, got = AnswerReader(rows_only=True), result(rows), []
    for at in range(0, len(data), size):
        assert not answer.done
        answer.feed(data[at : at + size])
        got += map(list, answer.take_rows())
    assert answer.done and answer.has_columns and answer.error is None and got == rows


def test_values_as_long_as_packets():
    rows = [[b"x" * (0xFFFFFF + 5), b"y"], [b"z" * 70_000, None]]
    answer = AnswerReader(rows_only=True)
    answer.feed(result(rows))
    assert answer.done and answer.take_rows() == list(map(tuple, rows))


def test_the_columns_are_told_before_any_row():
    answer = AnswerReader(rows_only=True)
    data = packets(b"\x01", b"column", EOF)
    answer.feed(data[: -len(packets(EOF))])
    assert not answer.has_columns
    answer.feed(data[-len(packets(EOF)) :])
    assert answer.has_columns and not answer.done


def test_an_error_ends_it_wherever_it_stands():
    error = b"\xff\x25\x05#70100Query execution was interrupted"
    for before in ((), (b"\x01", b"c", EOF), (b"\x01", b"c", EOF, b"\x01a")):
        answer = AnswerReader(rows_only=True)
        answer.feed(packets(*before, error))
        assert answer.done and answer.error is not None
        assert parse_error(answer.error) == (1317, "Query execution was interrupted", "70100")


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x00\x01", packets(b"\x00\x00\x00"), packets(b"\x01", b"c", EOF, b"\x05abc")]
)
def test_what_is_no_answer_is_said(data):
    with pytest.raises(MalformedAnswer):
        AnswerReader(rows_only=True).feed(data)


def named(*ids):
    """Deliveries of a queue with tokens."""
    return [Delivery(id_, 1, 100 + id_) for id_ in ids]


def test_what_is_held_is_counted_and_settled_once():
    unsettled, channel, consumer = Unsettled(), object(), object()
    tags = [unsettled.add(UnsettledDelivery("q", delivery, channel, consumer)) for delivery in named(10, 11, 12)]
    other = unsettled.add(UnsettledDelivery("r", *named(1), object(), None))
    assert (unsettled.count(consumer), unsettled.all()) == (3, {"q": named(10, 11, 12), "r": named(1)})
    assert unsettled.tags_of(channel) == tags and unsettled.tags_of(channel, tags[1]) == tags[:2]
    unsettled.ack(tags[:2])
    assert (unsettled.count(consumer), unsettled.all()) == (1, {"q": named(12), "r": named(1)})
    assert unsettled.settle([tags[0], tags[2], 999]) == {"q": named(12)}
    assert unsettled.take_acks() == {"q": named(10, 11)} and unsettled.take_acks() == {} and not unsettled.has_acks
    assert unsettled.count(consumer) == 0 and unsettled.tags_of(channel) == []
    assert unsettled.settle([other]) == {"r": named(1)}


def test_threads_may_settle():
    unsettled, consumer = Unsettled(), object()
    tags = [unsettled.add(UnsettledDelivery("q", delivery, None, consumer)) for delivery in named(*range(4000))]
    threads = [threading.Thread(target=unsettled.ack, args=(tags[n:],)) for n in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(unsettled.take_acks()["q"]) == named(*range(4000)) and unsettled.count(consumer) == 0


def test_what_is_owed_goes_to_the_same_database_once():
    unsent, one, other = UnsentAcks(), Address("h", 1, "u", "p", "a"), Address("h", 1, "u", "p", "b")
    unsent.add(one, {"q": named(1)})
    unsent.add(one, {"q": named(2), "r": named(3)})
    assert unsent.take(other) == {}
    assert unsent.take(Address("h", 1, "another account", "p", "a")) == {}
    assert unsent.take(one) == {"q": named(1, 2), "r": named(3)} and unsent.take(one) == {}


def test_what_is_owed_goes_to_another_proxy_of_the_same_list():
    both, unsent = frozenset({("a", 1), ("b", 1)}), UnsentAcks()
    first, second = (Address(host, 1, "u", "p", "shop", proxies=both) for host in ("a", "b"))
    unsent.add(first, {"q": named(1)})
    assert unsent.take(Address("b", 1, "u", "p", "shop")) == {}
    assert unsent.take(second) == {"q": named(1)}


def test_a_statement_names_deliveries_by_their_tokens():
    one_claim = [Delivery(1, 1, 7), Delivery(2, 3, 7)]
    assert list(conditions(one_claim)) == ["id IN (1, 2) AND lease_token = 7"]
    assert list(conditions([*one_claim, Delivery(3, 1, 9)])) == [
        "id IN (1, 2) AND lease_token = 7", "id IN (3) AND lease_token = 9",
    ]  # fmt: skip
    assert list(conditions([Delivery(1, 1), Delivery(2, 3), Delivery(4, 1)])) == [
        "id IN (1, 4) AND epoch = 1", "id IN (2) AND epoch = 3",
    ]  # fmt: skip


def test_a_statement_has_so_many_ids():
    alike = [Delivery(n, 1, 7) for n in range(2 * IDS_MAX + 1)]
    assert [each.count(",") + 1 for each in conditions(alike)] == [IDS_MAX, IDS_MAX, 1]


class Holder:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failed = threading.Event()

    def renew(self) -> None:
        self.calls.append("renew")

    def send_acks(self) -> bool:
        self.calls.append("acks")
        return len(self.calls) > 1

    def listen(self) -> None:
        self.calls.append("listen")

    def receive_and_keep_awake(self, idle_seconds: float) -> None:
        self.calls.append(f"receive, {idle_seconds:g} s")

    def fail(self, error: Exception) -> None:
        self.failed.set()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_leases_are_prolonged_by_a_third():
    holder, clock = Holder(), Clock()
    renewal = Renewal(holder, holder, 30, clock)
    renewal.stop()  # its thread; here the clock is moved by hand
    turn = ["receive, 5 s", "renew"]  # what has just been received is renewed, too
    for seconds, turns in ((9.9, 0), (0.2, 1), (9.8, 1), (0.3, 2), (0.3, 2)):
        clock.now += seconds
        renewal.run_once()
        assert holder.calls == turn * turns
    clock.now += LISTENER_SECONDS
    renewal.run_once()
    assert holder.calls[4:] == [*turn, "listen"]


def test_a_long_lease_lets_no_connection_fall_silent():
    holder, clock = Holder(), Clock()
    renewal = Renewal(holder, holder, 86_400, clock)
    renewal.stop()
    clock.now += AWAKE_SECONDS / 3
    renewal.run_once()
    assert holder.calls == ["receive, 10 s", "renew"]


def test_acks_that_the_event_loop_leaves_are_sent():
    holder, clock = Holder(), Clock()
    renewal = Renewal(holder, holder, 30, clock)
    renewal.stop()
    renewal.acks_wait()
    renewal.run_once()
    assert holder.calls == []
    clock.now += ACK_SECONDS
    renewal.acks_wait()  # does not put it off
    renewal.run_once()
    renewal.run_once()
    assert holder.calls == ["acks"]
    for _ in range(2):  # they could not be sent: once more, a second later
        clock.now += RETRY_SECONDS
        renewal.run_once()
    assert holder.calls == ["acks", "acks"]


def test_a_failure_is_told_and_ends_it():
    class Failing(Holder):
        def send_acks(self) -> bool:
            raise OSError("gone")

    holder = Failing()
    renewal = Renewal(holder, holder, 30)
    renewal.acks_wait()
    assert holder.failed.wait(20)
    renewal.stop()


def test_a_renewal_that_the_database_refuses_for_now_is_repeated():
    class Refused(Holder):
        renewed = threading.Event()

        def renew(self) -> None:
            self.calls.append("renew")
            if self.calls.count("renew") == 1:
                raise Unavailable("read-only")
            self.renewed.set()

    holder = Refused()
    renewal = Renewal(holder, holder, 0.03)
    assert holder.renewed.wait(20)
    renewal.stop()
    assert not holder.failed.is_set()


def test_a_connection_that_is_garbage_is_renewed_no_more():
    holder, clock = Holder(), Clock()
    calls, renewal = holder.calls, Renewal(holder, holder, 0.03, clock)
    del holder
    renewal._thread.join(20)
    assert not renewal._thread.is_alive() and calls == []


class ReadOnly:
    """Notes the statements; while `error` is there, none is executed."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.error: Exception | None = None

    def execute(self, sql: str) -> int:
        if self.error is not None:
            raise self.error
        self.statements.append(sql)
        return 1

    def mogrify(self, sql: str, args: tuple[str, ...]) -> str:
        return sql % args


def test_what_the_database_refuses_for_now_is_sent_again():
    db, clock, channel = ReadOnly(), Clock(), object()
    settlement = Settlement(db, Address("h", 2, "u", "p", "refusing"), Settings(), clock)  # type: ignore[arg-type]
    acked, requeued, rejected = (
        settlement.unsettled.add(UnsettledDelivery("q", delivery, channel, None)) for delivery in named(1, 2, 3)
    )
    db.error = Unavailable("read-only")
    settlement.unsettled.ack([acked])
    assert not settlement.send_acks()
    settlement.requeue([requeued])
    settlement.reject([rejected], "no")
    db.error = None
    assert not settlement.send_acks() and db.statements == []  # a pause
    clock.now += RETRY_SECONDS
    assert settlement.send_acks() and settlement.send_acks()
    assert [sql.split()[0] for sql in db.statements] == ["ACK", "NACK", "REJECT"]


def test_an_end_waits_for_no_pause():
    db, clock = ReadOnly(), Clock()
    settlement = Settlement(db, Address("h", 3, "u", "p", "ending"), Settings(), clock)  # type: ignore[arg-type]
    db.error = Unavailable("read-only")
    settlement.ack_now({"q": named(1)})
    db.error = None
    assert settlement.send_acks(pauses=False) and len(db.statements) == 1


def test_a_poll_that_the_database_refuses_is_sent_again_for_the_time_of_a_lease(monkeypatch):
    clock, poll = Clock(), object.__new__(sources._PollConnection)
    monkeypatch.setattr(sources, "time", SimpleNamespace(monotonic=clock))
    poll._address, poll._settings = Address("h", 1, "u", "p", "a"), Settings(lease_seconds=60)
    poll._failing_since, poll.retry_at = None, 0.0
    poll._failed(1317, "killed")
    assert poll.retry_at == 0.0
    for _ in range(2):
        clock.now += 30
        poll._failed(1290, "read-only")
        assert poll.retry_at == clock.now + RETRY_SECONDS
    clock.now += 31
    for number, kind in ((1290, RecoverableConnectionError), (1146, RecoverableConnectionError), (1142, AccessRefused)):
        with pytest.raises(kind, match=str(number)):
            poll._failed(number, "refused")
