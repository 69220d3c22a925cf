"""The transport as Kombu uses it, over real sockets on both backends: queues, exchanges, prefetch, settling, errors."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import amqp.exceptions
import kombu
import pytest
from celery_workers import open_connections, url_of
from certificates import Authority
from servers import Sql, wait_until
from slowness import scaled

from queuegate_celery import publishing_on, sources

pytestmark = pytest.mark.long
on_server = pytest.mark.parametrize("place", ["mariadb"], indirect=True)
"""What the transport makes of AMQP, on one backend: that its statements mean the same on both is the contract's."""

_numbers = itertools.count(1)


@pytest.fixture
def names(sql) -> Iterator[Callable[[str], str]]:
    """Makes names of queues; the queues are dropped at the end."""
    made = []

    def make(stem: str = "q") -> str:
        made.append(f"{stem}{next(_numbers)}")
        return made[-1]

    yield make
    for name in made:
        quoted = "`" + name.replace("`", "``") + "`"
        sql(f"DROP QUEUE IF EXISTS {quoted}")
        dead = "`" + name.replace("`", "``") + "_dead`"
        sql(f"DROP QUEUE IF EXISTS {dead}")


def declared(
    channel: Any, name: str, exchange: str = "", kind: str = "direct", key: str = "", **more: Any
) -> kombu.Queue:
    queue = kombu.Queue(name, kombu.Exchange(exchange, kind) if exchange else None, routing_key=key, **more)(channel)
    queue.declare()
    return queue


def publish(channel: Any, body: Any, queue: str = "", **options: Any) -> None:
    kombu.Producer(channel).publish(body, **{"exchange": "", "routing_key": queue, **options})


def received(connection: kombu.Connection, queue: kombu.Queue, count: int, timeout: float = 20, **options: Any) -> list:
    """The next messages, not acked."""
    got: list[Any] = []
    prefetch = options.pop("prefetch", 0)
    consumer = kombu.Consumer(queue.channel, [queue], on_message=got.append, auto_declare=False, **options)
    if prefetch:
        consumer.qos(prefetch_count=prefetch)
    consumer.consume()
    deadline = time.monotonic() + scaled(timeout)
    while len(got) < count:
        connection.drain_events(timeout=max(deadline - time.monotonic(), 0.01))
    consumer.cancel()
    return got


def nothing_comes(connection: kombu.Connection, seconds: float = 0.3) -> bool:
    try:
        connection.drain_events(timeout=seconds)
    except TimeoutError:
        return True
    return False


def renewed(sql: Sql, name: str, seconds: int) -> None:
    """Waits until all leases of the queue end at least so many seconds later than now."""
    first = sql.value(f"SELECT MAX(time_next) FROM {name}")
    ends = f"SELECT MIN(time_next) FROM {name}"
    wait_until(lambda: sql.value(ends) >= first + seconds * 1_000_000_000, 30, "renewals")


def test_a_message_comes_as_it_was_sent_and_is_acked(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        publish(channel, {"n": 1, "s": "größe"}, name, headers={"task": "t.a", "id": "7", "x": [1, None]}, priority=3)
        (message,) = received(connection, queue, 1)
        assert message.payload == {"n": 1, "s": "größe"}
        assert message.headers == {"task": "t.a", "id": "7", "x": [1, None]}
        assert (message.delivery_info["routing_key"], message.delivery_info["redelivered"]) == (name, False)
        assert (message.properties["priority"], message.content_type) == (3, "application/json")
        assert sql.row(f"SELECT task, task_id, priority, epoch FROM {name}") == ("t.a", "7", 47, 1)
        message.ack()
    assert sql.value(f"SELECT state FROM {name}") == "acked"


@on_server
def test_bytes_and_compression(broker, names):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        publish(channel, bytes(range(256)), name)
        publish(channel, {"long": "x" * 100_000}, name, compression="gzip")
        first, second = received(connection, queue, 2)
        assert first.body == bytes(range(256))
        assert second.payload == {"long": "x" * 100_000}


@on_server
def test_priorities_go_first_as_in_amqp(broker, names):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        for priority in (None, 0, 5, 9, 5, 99, -3):
            publish(channel, priority, name, priority=priority)
        got = [message.payload for message in received(connection, queue, 7, prefetch=7)]
        assert got == [9, 99, 5, 5, None, 0, -3]


@on_server
def test_prefetch_bounds_what_a_consumer_holds_and_may_change(broker, names):
    connection, name, got = broker(), names(), []
    with connection.channel() as channel:
        queue = declared(channel, name)
        for n in range(6):
            publish(channel, n, name)
        consumer = kombu.Consumer(channel, [queue], on_message=got.append)
        consumer.qos(prefetch_count=2)
        consumer.consume()
        for _ in range(2):
            connection.drain_events(timeout=20)
        assert nothing_comes(connection)
        got[0].ack()
        connection.drain_events(timeout=20)
        assert nothing_comes(connection)
        consumer.qos(prefetch_count=4)
        for _ in range(2):
            connection.drain_events(timeout=20)
        assert nothing_comes(connection)
        assert [message.payload for message in got] == [0, 1, 2, 3, 4]


def test_a_message_reaches_a_waiting_consumer_without_polling(broker, names):
    """Fifty in turn, each published when the one before has come, in less than a second each."""
    receiver, sender, name = broker(), broker(), names()
    queue, got = declared(receiver.channel(), name), []
    kombu.Consumer(queue.channel, [queue], on_message=got.append).consume()
    with sender.channel() as channel:
        began = time.monotonic()
        for n in range(50):
            publish(channel, n, name)
            receiver.drain_events(timeout=20)
            got[-1].ack()
        assert time.monotonic() - began < scaled(25)
    assert [message.payload for message in got] == list(range(50))


def test_a_consumer_outlasts_a_locked_table(broker, names, place, gate, request, monkeypatch):
    """A question that meets the lock ends in 1205, and the next one brings the message."""
    if place == "embedded":
        pytest.skip("has no locks on tables of its own")
    monkeypatch.setattr(sources, "_WAIT_SECONDS", 1)
    connection, name = broker(), names()
    around = Sql(request.getfixturevalue("server_here").connect(database=gate.database))
    asked: list[str] = []
    ask = sources._PollConnection.send
    monkeypatch.setattr(sources._PollConnection, "send", lambda pull, sql: (asked.append(sql), ask(pull, sql))[1])
    got: list[Any] = []
    with connection.channel() as channel:
        queue = declared(channel, name)
        kombu.Consumer(channel, [queue], on_message=got.append, auto_declare=False).consume()
        around(f"LOCK TABLES `{name}` READ")
        deadline = time.monotonic() + 30
        while len(asked) < 4 and time.monotonic() < deadline:
            assert nothing_comes(connection)
        assert len(asked) >= 4, "it asks again"
        around("UNLOCK TABLES")
        publish(channel, "x", name)
        wait_until(lambda: not nothing_comes(connection) or got)
        assert [message.payload for message in got] == ["x"]
        got[0].ack()
    around.close()


def test_requeue_reject_multiple_and_recover(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        for n in range(5):
            publish(channel, n, name)
        first, second, third, fourth, _fifth = received(connection, queue, 5)
        first.requeue()
        second.reject()
        channel.basic_ack(fourth.delivery_tag, multiple=True)
        assert third.delivery_tag < fourth.delivery_tag
        # The rejected one may have been moved by now, so places in the table say nothing.
        assert sorted(sql.column(f"SELECT body FROM {name} WHERE state = 'acked'")) == [b"2", b"3"]
        channel.basic_recover()
        again = received(connection, queue, 2)
        assert sorted(message.payload for message in again) == [0, 4]
    wait_until(lambda: sql.rows("SHOW TABLES LIKE %s", f"{name}_dead"), what="the dead-letter queue")
    wait_until(lambda: sql.column(f"SELECT body FROM {name}_dead") == [b"1"], what="the dead letter")


def test_what_is_rejected_in_a_dead_letter_queue_comes_again_later(broker, names, sql):
    """It has no dead letters; the consumer goes on."""
    connection, name = broker(), names()
    dead = f"{name}_dead"
    with connection.channel() as channel:
        queue = declared(channel, name)
        for n in range(2):
            publish(channel, n, name)
            received(connection, queue, 1)[0].reject()
        wait_until(lambda: sql.rows("SHOW TABLES LIKE %s", dead), what="the dead-letter queue")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {dead}") == 2, what="the dead letters")
        for n in range(2):
            (message,) = received(connection, declared(channel, dead), 1, prefetch=1)
            assert message.payload == n
            message.reject()
        in_seconds = f"SELECT (MIN(time_next) - UNIX_TIMESTAMP() * 1000000000) DIV 1000000000 FROM {dead}"
        assert 3000 < sql.value(in_seconds) <= 3601


def test_requeues_count(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name, queue_arguments={"x-delivery-limit": 2})
        publish(channel, 1, name)
        for attempt in (False, True):
            (message,) = received(connection, queue, 1)
            assert message.delivery_info["redelivered"] is attempt
            message.requeue()
        kombu.Consumer(channel, [queue], on_message=lambda message: pytest.fail("it came again")).consume()
        assert nothing_comes(connection)
        wait_until(lambda: not sql.rows(f"SELECT id FROM {name}"), what="the dead letter to go")


@on_server
def test_requeues_do_not_count_where_the_options_say_so(broker, names):
    connection, name = broker(count_requeues=False), names()
    with connection.channel() as channel:
        queue = declared(channel, name, queue_arguments={"x-delivery-limit": 2})
        publish(channel, 1, name)
        for _ in range(4):
            (message,) = received(connection, queue, 1)
            message.requeue()


def test_a_closed_channel_gives_back_what_it_held_and_does_not_count_it(broker, names):
    connection, name = broker(), names()
    with connection.channel() as channel:
        publish(channel, 1, declared(channel, name).name)
        received(connection, declared(channel, name), 1)
    with connection.channel() as channel:
        (message,) = received(connection, declared(channel, name), 1)
        assert message.delivery_info["redelivered"] is False


def test_what_a_lost_connection_held_comes_again_at_once(broker, names):
    one, other, name = broker(), broker(), names()
    queue = declared(one.channel(), name)
    publish(queue.channel, 1, name)
    received(one, queue, 1)
    one.connection.fail(OSError("gone"))
    one.connect()
    (message,) = received(other, declared(other.channel(), name), 1)
    assert message.delivery_info["redelivered"] is True


def test_an_ack_after_the_connection_was_lost_is_sent_by_the_next_one(broker, names, sql):
    one, other, name = broker(), broker(), names()
    queue = declared(one.channel(), name)
    publish(queue.channel, 1, name)
    (message,) = received(one, queue, 1)
    one.connection.fail(OSError("gone"))
    message.ack()
    assert sql.value(f"SELECT state FROM {name}") == "fired"
    other.connect()
    assert sql.value(f"SELECT state FROM {name}") == "acked"


def test_a_connection_that_is_dropped_without_an_end_gives_back_what_it_held(broker, names, gate):
    """As one that a program forgets does with RabbitMQ."""
    other, name = broker(), names()
    queue = declared(other.channel(), name)
    publish(queue.channel, 1, name)

    def forget() -> None:
        one = kombu.Connection(url_of(gate), transport_options={"lease": 60})
        received(one, queue(one.channel()), 1)

    forget()
    gc.collect()
    (message,) = received(other, queue, 1)
    assert message.payload == 1


def test_a_cancelled_consumer_keeps_its_connection_until_its_messages_are_settled(broker, names, sql):
    connection, name, got = broker(), names(), []
    with connection.channel() as channel:
        queue = declared(channel, name)
        before = open_connections()
        for _ in range(3):
            with kombu.Consumer(channel, [queue], on_message=got.append, auto_declare=False):
                assert nothing_comes(connection, 0.01)
        assert open_connections() == before
        publish(channel, 1, name)
        (message,) = received(connection, queue, 1)
        assert open_connections() == before + 1
        message.ack()
        assert open_connections() == before and sql.column(f"SELECT state FROM {name}") == ["acked"]


@on_server
def test_an_auto_delete_queue_ends_with_its_last_consumer(broker, names):
    connection, name = broker(), names()
    channel = connection.channel()
    queue = kombu.Queue(name, kombu.Exchange(f"x{name}", "fanout"), auto_delete=True)(channel)
    before = open_connections()
    queue.declare()
    one, two = (kombu.Consumer(channel, [queue], on_message=print, no_ack=True) for _ in range(2))
    one.consume(), two.consume()
    one.cancel()
    assert open_connections() == before + 1
    two.cancel()
    assert open_connections() == before
    queue.declare()
    assert open_connections() == before + 1


@on_server
def test_get_and_no_ack(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        assert queue.get() is None
        for n in range(3):
            publish(channel, n, name)
        message = queue.get()
        assert message.payload == 0
        message.ack()
        assert queue.get(no_ack=True).payload == 1
        assert received(connection, queue, 1, no_ack=True)[0].payload == 2
        assert sql.column(f"SELECT state FROM {name}") == ["acked"] * 3


def test_leases_are_prolonged_while_the_consumer_lives(broker, names, sql):
    connection, name = broker(lease=3), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        publish(channel, 1, name)
        got: list[Any] = []
        kombu.Consumer(channel, [queue], on_message=got.append).consume()
        connection.drain_events(timeout=20)
        renewed(sql, name, 4)  # over the first lease's end: its time is passed, and the message is still held, once
        assert nothing_comes(connection)
        assert sql.row(f"SELECT epoch, state FROM {name}") == (1, "fired")
        got[0].ack()
        connection.connection.settlement.send_acks()
        assert sql.value(f"SELECT state FROM {name}") == "acked"


def test_a_message_that_was_fetched_keeps_its_lease(broker, names, sql):
    connection, name = broker(lease=3), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        publish(channel, 1, name)
        message = queue.get()
        renewed(sql, name, 4)
        assert queue.get() is None
        message.ack()
        assert sql.row(f"SELECT epoch, state FROM {name}") == (1, "acked")


def test_what_arrives_while_nobody_reads_keeps_its_lease(broker, names, sql):
    """A consumer that works for longer than a lease, with a poll pending, as the pool `solo` does."""
    busy, other, name, got = broker(lease=3), broker(lease=3), names(), []
    queue = declared(busy.channel(), name)
    kombu.Consumer(queue.channel, [queue], on_message=got.append).consume()
    assert nothing_comes(busy, 0.01)
    publish(other.channel(), 1, name)  # one: a poll ends with the first message that it finds
    wait_until(lambda: sql.column(f"SELECT state FROM {name}") == ["fired"], 30, "the message to be received")
    renewed(sql, name, 4)
    kombu.Consumer(other.channel(), [queue(other.channel())], on_message=lambda _: pytest.fail("came twice")).consume()
    assert nothing_comes(other)
    busy.drain_events(timeout=20)
    assert (got[0].payload, got[0].delivery_info["redelivered"]) == (1, False)
    got[0].ack()
    busy.connection.settlement.send_acks()
    assert sql.rows(f"SELECT epoch, state FROM {name}") == [(1, "acked")]


def test_a_worker_with_enough_messages_is_not_disconnected_as_idle(broker, names, new_gate, place):
    """Its prefetch is used up, so it polls no more; and a consumer that was cancelled works on what it had."""
    gate = new_gate(limits={"idle_timeout": "2s"}).start()
    # Behind a server the session's wait_timeout is the server's, which says nothing of the proxy's limit.
    connection, sql = broker(url=url_of(gate), lease=60 if place == "embedded" else 3), Sql(gate.connect())
    got, late, early = [], names(), names()
    queues = {name: declared(connection.channel(), name) for name in (early, late)}
    for name, queue in queues.items():
        publish(queue.channel, name, name)
        consumer = kombu.Consumer(queue.channel, [queue], on_message=got.append)
        consumer.qos(prefetch_count=1)
        consumer.consume()
        connection.drain_events(timeout=20)
        if name == early:
            consumer.cancel()
    for name in queues:
        renewed(sql, name, 6)
    assert nothing_comes(connection)
    for message in got:
        message.ack()
    connection.connection.settlement.send_acks()
    for name in queues:
        assert sql.row(f"SELECT epoch, state FROM {name}") == (1, "acked")
    sql.close()


def test_eta_is_the_queues_business(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        eta = datetime.now(UTC) + timedelta(seconds=2)
        publish(channel, "later", name, headers={"eta": eta.isoformat()})
        publish(channel, "past", name, headers={"eta": (eta - timedelta(days=1)).isoformat()})
        publish(channel, "no zone", name, headers={"eta": "2099-01-01T00:00:00"})
        assert queue.queue_declare(passive=True).message_count == 3
        assert sql.column(f"SELECT time_scheduled FROM {name} ORDER BY id")[0] == round(eta.timestamp() * 1e6) * 1000
        got = received(connection, queue, 3)
        assert datetime.now(UTC) >= eta
        assert [message.payload for message in got] == ["past", "no zone", "later"]


def test_expired_messages_do_not_come(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        publish(channel, "gone", name, expiration=0.001)
        publish(channel, "there", name, expiration=60)
        wait_until(lambda: sql.value(f"SELECT MIN(time_expires) < {time.time_ns()} FROM {name}"), what="its end")
        assert [message.payload for message in received(connection, queue, 1)] == ["there"]
        assert sql.column(f"SELECT state FROM {name} ORDER BY id")[0] == "acked"
        publish(channel, "gone, too", name, expiration=0.001)
        wait_until(lambda: sql.value(f"SELECT MAX(id) FROM {name} WHERE time_expires < {time.time_ns()}") == 3)
        assert queue.get() is None and sql.value(f"SELECT state FROM {name} WHERE id = 3") == "acked"


def test_declare_passive_count_purge_delete(broker, names, sql):
    connection, name = broker(), names()
    with connection.channel() as channel:
        with pytest.raises(amqp.exceptions.NotFound, match="is made when it is declared"):
            channel.queue_declare(name, passive=True)
        with pytest.raises(amqp.exceptions.NotFound):
            publish(channel, 1, name)
        queue = declared(channel, name)
        for n in range(3):
            publish(channel, n, name)
        assert channel.queue_declare(name).message_count == 3
        received(connection, queue, 1, prefetch=1)
        assert channel.queue_declare(name, passive=True).message_count == 2
        assert queue.purge() == 2
        with pytest.raises(amqp.exceptions.ChannelError, match="in use"):
            kombu.Consumer(channel, [queue]).consume()
            channel.queue_delete(name, if_unused=True)
        queue.delete()
        assert sql.rows("SHOW TABLES LIKE %s", name) == []


def test_what_a_dead_worker_had_is_counted_and_purged(broker, names, sql):
    one, other, name = broker(), broker(), names()
    queue = declared(one.channel(), name)
    for n in range(5):
        publish(queue.channel, n, name)
    received(one, queue, 3, prefetch=3)
    again = declared(other.channel(), name)
    assert again.queue_declare(passive=True).message_count == 2
    one.connection.fail(OSError("gone"))
    one.connect()
    wait_until(lambda: again.queue_declare(passive=True).message_count == 5, what="what it held to be given back")
    # A lease that ran out on its own, one that did not, and one that was set aside by a person.
    for id_, ends in ((1, "1000000000000000001"), (2, "UNIX_TIMESTAMP() * 1000000000 + 60000000001"), (3, 2**63 - 1)):
        sql(f"UPDATE {name} SET epoch = 1, time_next = {ends} WHERE id = {id_}")
    assert again.purge() == 3 and sql.column(f"SELECT id FROM {name} ORDER BY id") == [2, 3]


def test_a_queue_whose_consumer_has_enough_messages_is_in_use(broker, names):
    one, other, name = broker(), broker(), names()
    queue, got = declared(one.channel(), name), []
    publish(queue.channel, 1, name)
    consumer = kombu.Consumer(queue.channel, [queue], on_message=got.append, auto_declare=False)
    consumer.qos(prefetch_count=1)
    consumer.consume()
    one.drain_events(timeout=20)
    with pytest.raises(amqp.exceptions.ChannelError, match="in use"):
        other.channel().queue_delete(name, if_unused=True)
    got[0].ack()


@on_server
@pytest.mark.parametrize("stem", ["a`b", "per%cent %s", 'it\'s "here"', "größe.x@y", "celery@host.pidbox"])
def test_names_of_any_characters(broker, names, stem):
    connection, name = broker(), names(stem)
    with connection.channel() as channel:
        queue = declared(channel, name, f"x{name}", "topic", f"{stem}.*")
        publish(channel, 1, exchange=f"x{name}", routing_key=f"{stem}.one")
        publish(channel, 2, exchange=f"x{name}", routing_key="other.one")
        (message,) = received(connection, queue, 1)
        assert message.payload == 1
        message.ack()
        assert queue.purge() == 0
        assert (name, f"x{name}", f"{stem}.*") in set(channel.list_bindings())
        queue.delete()
        assert (name, f"x{name}", f"{stem}.*") not in set(channel.list_bindings())


@on_server
def test_processes_agree_on_bindings(broker, names):
    receiver, sender, name = broker(), broker(), names()
    exchange = f"x{name}"
    with receiver.channel() as channel, sender.channel() as other:
        both = declared(channel, names(), exchange, "topic", "order.#")
        some = declared(channel, names(), exchange, "topic", "order.*.paid")
        publish(other, "paid", exchange=exchange, routing_key="order.7.paid")
        publish(other, "order", exchange=exchange, routing_key="order")
        publish(other, "nobody", exchange=exchange, routing_key="else")
        assert [m.payload for m in received(receiver, both, 2)] == ["paid", "order"]
        assert [m.payload for m in received(receiver, some, 1)] == ["paid"]
        with pytest.raises(amqp.exceptions.NotFound, match="no queue is bound"):
            publish(other, "nobody", exchange=exchange, routing_key="else", mandatory=True)
        some.unbind_from(some.exchange, "order.*.paid")
        publish(other, "again", exchange=exchange, routing_key="order.8.paid")
        assert [m.payload for m in received(receiver, both, 1)] == ["again"]
        assert some.queue_declare(passive=True).message_count == 0
        with pytest.raises(amqp.exceptions.PreconditionFailed, match="has type 'topic'"):
            declared(other, names(), exchange, "fanout")


@on_server
def test_a_fanout_reaches_queues_that_stay_and_those_that_do_not(broker, names):
    connections = [broker(), broker(), broker()]
    exchange = kombu.Exchange(names("fan"), "fanout")
    stays = declared(connections[0].channel(), names(), exchange.name, "fanout")
    heard: list[list[Any]] = [[], []]
    for connection, got in zip(connections[:2], heard, strict=True):
        queue = kombu.Queue(names("t"), exchange, exclusive=True)(connection.channel())
        queue.declare()
        kombu.Consumer(queue.channel, [queue], on_message=got.append, no_ack=True).consume()
    for n in range(3):
        publish(connections[2].channel(), n, exchange=exchange.name, routing_key="any")
    for connection, got in zip(connections[:2], heard, strict=True):
        while len(got) < 3:
            connection.drain_events(timeout=20)
        assert [message.payload for message in got] == [0, 1, 2]
    assert [message.payload for message in received(connections[0], stays, 3)] == [0, 1, 2]


@on_server
def test_a_transient_queue_has_what_was_sent_since_it_was_bound(broker, names):
    """As a client of remote control relies on: it declares where replies go, asks, and only then consumes."""
    asker, answerer, name = broker(), broker(), names("reply")
    queue = kombu.Queue(name, kombu.Exchange(f"x{name}", "direct"), routing_key="me", auto_delete=True)(asker.channel())
    queue.declare()
    publish(answerer.channel(), "mine", exchange=f"x{name}", routing_key="me")
    publish(answerer.channel(), "other", exchange=f"x{name}", routing_key="you")
    publish(answerer.channel(), "mine, too", exchange=f"x{name}", routing_key="me")
    assert [m.payload for m in received(asker, queue, 2, no_ack=True)] == ["mine", "mine, too"]


def test_it_commits_with_the_applications_rows_or_not_at_all(broker, names, sql, connect):
    connection, name, application = broker(), names(), connect(autocommit=False)
    application("CREATE TABLE IF NOT EXISTS celery_orders (n INT)")
    with connection.channel() as channel, application.connection.cursor() as cursor:
        queue = declared(channel, name)
        for n, end in ((1, "ROLLBACK"), (2, "COMMIT")):
            cursor.execute("INSERT INTO celery_orders VALUES (%s)", (n,))
            with publishing_on(cursor):
                publish(channel, n, name)
            assert sql.rows(f"SELECT id FROM {name}") == []
            cursor.execute(end)
        (message,) = received(connection, queue, 1)
        assert message.payload == 2
        assert sql.column("SELECT n FROM celery_orders") == [2]
    sql("DROP TABLE celery_orders")


def test_errors_say_what_to_do(broker, names, gate, sql):
    name = names("plain")
    sql(f"CREATE TABLE {name} (a INT)")
    channel = broker().channel()
    with pytest.raises(amqp.exceptions.PreconditionFailed, match="queue_prefix"):
        channel.queue_declare(name)
    sql(f"DROP TABLE {name}")
    with pytest.raises(amqp.exceptions.PreconditionFailed, match="x-message-ttl is not supported"):
        channel.queue_declare(name, arguments={"x-message-ttl": 1000})
    with pytest.raises(amqp.exceptions.PreconditionFailed, match="no option"):
        channel.queue_declare(name, arguments={"a = 1, b": 1})
    with pytest.raises(amqp.exceptions.ConnectionError, match="names no database"):
        broker(url=url_of(gate, database="")).connect()
    with pytest.raises(amqp.exceptions.ConnectionError, match="embedded backend has one alone"):
        broker(url=url_of(gate, database="nowhere")).connect()
    with pytest.raises(amqp.exceptions.ConnectionError, match="lease"):
        broker(lease="long").connect()
    with pytest.raises(kombu.exceptions.OperationalError):
        broker(url=url_of(gate, port=1)).ensure_connection(max_retries=1, interval_start=0)


def test_a_wrong_password_is_told(broker, gate, place):
    """The embedded backend's gate of these tests lets root in alone."""
    with pytest.raises(amqp.exceptions.ConnectionError, match="'nobody' is not let in"):
        broker(url=url_of(gate, user="nobody", password="x")).connect()


@on_server
def test_over_tls(new_gate, tmp_path):
    """Rows come in records of TLS, of which the kernel tells an event loop only in part."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "127.0.0.1")
    gate = new_gate(tls={"certificate": str(certificate), "key": str(key), "mode": "required"}).start()
    with kombu.Connection(url_of(gate), ssl={"ca_certs": str(authority.ca)}) as connection:
        queue = declared(connection.channel(), "secret")
        for n in range(50):
            publish(queue.channel, {"n": n, "long": "x" * 10_000}, "secret")
        got = received(connection, queue, 50)
        assert [message.payload["n"] for message in got] == list(range(50))
        got[-1].channel.basic_ack(got[-1].delivery_tag, multiple=True)
        assert queue.queue_declare(passive=True).message_count == 0
    other = Authority(tmp_path, "another authority")
    with (
        pytest.raises(amqp.exceptions.ConnectionError),
        kombu.Connection(url_of(gate), ssl={"ca_certs": str(other.ca)}) as stranger,
    ):
        stranger.connect()
