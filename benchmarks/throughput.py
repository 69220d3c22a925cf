"""Messages a second: enqueue one by one and in batches, receive and ack a backlog. PyMySQL clients in threads.

The clients share the machine and one Python process with each other, so these are lower bounds of what the proxy does.
"""

from __future__ import annotations

import time

from benchmarks.measure import Measurement
from benchmarks.places import Place
from tests.servers import Sql, in_threads

PAYLOAD = "x" * 200
CLIENTS = 8
RECEIVERS = 3


def measure(place: Place, messages: int) -> list[Measurement]:
    """All of it on one queue after the other, so that nothing competes."""
    found = [
        _enqueue(place, "enqueue, 1 client", 1, 1, messages // 5),
        _enqueue(place, f"enqueue, {CLIENTS} clients", CLIENTS, 1, messages // 2),
        _enqueue(place, "enqueue, 1 client", 1, 100, messages),
    ]
    for receivers, batch in ((1, 10), (1, 100), (1, 500), (RECEIVERS, 100)):
        found.append(_drain(place, receivers, batch, messages if batch > 10 else messages // 5))
    return found


def _line(place: Place, subject: str, batch: int, messages: int, seconds: float) -> Measurement:
    rate = {"messages/s": round(messages / seconds), "us/message": round(seconds / messages * 1e6, 1)}
    return Measurement(subject, place.backend, place.durability, batch, messages, rate)


def _enqueue(place: Place, subject: str, clients: int, batch: int, messages: int) -> Measurement:
    _queue(place)
    each = messages // clients // batch
    insert = "INSERT INTO bench (payload) VALUES " + ", ".join(["(%s)"] * batch)

    def produce(client: Sql) -> None:
        for _ in range(each):
            client(insert, *[PAYLOAD] * batch)

    seconds = _timed(place, clients, produce)
    return _line(place, subject, batch, each * batch * clients, seconds)


def _drain(place: Place, receivers: int, batch: int, messages: int) -> Measurement:
    client = _queue(place, f"batch_size = {batch}, ack_wait = '10m'")
    for start in range(0, messages, 500):
        rows = min(500, messages - start)
        client("INSERT INTO bench (payload) VALUES " + ", ".join(["(%s)"] * rows), *[PAYLOAD] * rows)
    taken: list[int] = []

    def receive(client: Sql) -> None:
        while rows := client.rows(f"SELECT id, payload FROM STREAM bench LIMIT {batch} NOWAIT"):
            taken.append(client("ACK bench " + ", ".join(str(row[0]) for row in rows)))

    seconds = _timed(place, receivers, receive)
    assert sum(taken) == messages, f"{sum(taken)} of {messages} acked"
    clients = "1 receiver" if receivers == 1 else f"{receivers} receivers"
    return _line(place, f"receive and ack, {clients}", batch, messages, seconds)


def _timed(place: Place, clients: int, work: object) -> float:
    """Seconds that `work` takes with so many connections at once, connecting not counted."""
    assert callable(work)
    links = [Sql(place.gate.connect()) for _ in range(clients)]
    started = time.monotonic()
    in_threads(work, [(link,) for link in links], timeout=600)
    seconds = time.monotonic() - started
    for link in links:
        link.close()
    return seconds


def _queue(place: Place, options: str = "batch_size = 100") -> Sql:
    client = Sql(place.gate.connect())
    client("DROP QUEUE IF EXISTS bench")
    client(f"CREATE QUEUE bench (payload VARCHAR(300)) WITH ({options})")
    return client
