"""What a connection costs that does nothing: resident memory of the proxy, per connection.

Measured between the first `FEW` connections, which use what the allocator had left over from the start, and `MANY`.
The kernel's buffers for the sockets are not in it: an idle socket has none, only a few KB of the kernel's own records.
"""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Callable
from typing import Any

import pymysql

from benchmarks.harness import Outcome, Series, Special, Tell
from benchmarks.processes import resident_bytes
from benchmarks.rivals import HAPROXY, QUEUEGATE, Arena, Rival
from benchmarks.wire import query
from tests.certificates import Authority
from tests.servers import Sql, wait_until

FEW, MANY = 200, 1000
RECEIVERS = 300
MAIN = "KB/connection"
Open = Callable[[], "pymysql.Connection[Any]"]


def allow_files(wanted: int = 10_000) -> int:
    """As many open files as a thousand clients and their proxy need, where the system lets us; how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        with contextlib.suppress(ValueError, OSError):  # who may not raise the bound keeps it
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
            hard = wanted
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return wanted if soft == resource.RLIM_INFINITY else soft


def growth(pid: int, few: int, many: int, open_one: Open) -> float:
    """KB of resident memory that each connection beyond the first `few` adds."""
    with contextlib.ExitStack() as stack:

        def add(count: int) -> None:
            for _ in range(count):
                stack.callback(open_one()._force_close)

        gc.disable()  # a client's collector would run over a thousand connections again and again
        try:
            add(few)
            before = resident_bytes(pid)
            add(many - few)
            return (resident_bytes(pid) - before) / (many - few) / 1000
        finally:
            gc.enable()


def _measure(arena: Arena, repeats: int, tell: Tell) -> Outcome:
    allow_files()
    tell(f"{MANY} idle connections")
    series = [Series(name) for name in (HAPROXY, QUEUEGATE)]
    for one in series:
        for column, use in (("after login", _nothing), ("after a query", _select)):
            for rival in arena.named(one.rival):
                fresh = arena.fresh(rival)
                one.add({f"{MAIN} {column}": growth(_pid(fresh), FEW, MANY, _opener(fresh, use))})
    series[-1].add({f"{MAIN} over TLS": _over_tls(arena), f"{MAIN} as a receiver": _as_receiver(arena)})
    return Outcome("idle", f"Memory of an idle connection, {MANY} connections", f"{MAIN} after login", series, ())


def _over_tls(arena: Arena) -> float:
    authority = Authority(arena.directory)
    certificate, key = authority.issue("server", "127.0.0.1")
    gate, rival = arena.new_gate(tls={"certificate": str(certificate), "key": str(key)})
    encrypted = {"ssl_disabled": False, "ssl_ca": str(authority.ca)}
    found = growth(_pid(rival), FEW, MANY, _opener(rival, _select, **encrypted))
    gate.stop()
    return found


def _as_receiver(arena: Arena) -> float:
    gate, rival = arena.new_gate()
    client = Sql(rival.connect())
    client("CREATE QUEUE IF NOT EXISTS idle_queue (payload VARCHAR(300))")
    client.close()
    found = growth(_pid(rival), 50, RECEIVERS, _opener(rival, _receive))
    gate.stop()
    return found


def _opener(rival: Rival, use: Callable[[pymysql.Connection[Any]], None], **options: Any) -> Open:
    def open_one() -> pymysql.Connection[Any]:
        connection = rival.connect(**options)
        use(connection)
        return connection

    return open_one


def _nothing(connection: pymysql.Connection[Any]) -> None:
    pass


def _select(connection: pymysql.Connection[Any]) -> None:
    connection.query("SELECT 1")


def _receive(connection: pymysql.Connection[Any]) -> None:
    connection._sock.sendall(query("SELECT id, payload FROM STREAM idle_queue"))
    wait_until(lambda: connection._sock.recv(4096), 20, "the columns of the stream")


def _pid(rival: Rival) -> int:
    assert rival.pid is not None
    return rival.pid


PARTS = (Special("idle", "Memory of idle connections", _measure),)
