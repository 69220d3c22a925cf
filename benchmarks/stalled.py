"""Clients that ask for much and then stand still: what queuegate holds for them. Its own memory, and what the kernel's
socket buffers hold besides.

Each case has a fresh queuegate. The peak is the kernel's own (VmHWM), from before the statement until gate and database
have come to rest, each waiting for the other.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Outcome, Series, Special, Tell
from benchmarks.processes import peak_bytes, reset_peak, resident_bytes, settled, stopped
from benchmarks.rivals import Arena, Rival
from benchmarks.wire import BareClient, query

MB = 1_000_000
ERR = 0xFF
SMALL_ROWS = "SELECT seq, REPEAT('x', 1000) FROM seq_1_to_1000000"
LARGE_ROWS = "SELECT seq, REPEAT('x', 20000000) FROM seq_1_to_50"
HUNDRED_MB = "SELECT seq, REPEAT('x', 1000) FROM seq_1_to_100000"
STATEMENT = "SELECT LENGTH('" + "x" * 60_000_000 + "')"  # under max_packet_size, and many times any buffer


def _stall(rival: Rival, sql: str, readers: int) -> list[BareClient]:
    clients = [BareClient(rival.connect()) for _ in range(readers)]
    for client in clients:
        beginning = client.stall(sql)
        assert beginning[4] != ERR, beginning
    return clients


def _readers(sql: str, count: int) -> Callable[[Arena, Rival], Iterator[None]]:
    def case(arena: Arena, rival: Rival) -> Iterator[None]:
        clients = _stall(rival, sql, count)
        yield
        for client in clients:
            client.abandon()

    return case


def _large_statement(arena: Arena, rival: Rival) -> Iterator[None]:
    """The database is stopped by a signal, so that it reads nothing, and a client sends 60 MB."""
    client = BareClient(rival.connect())
    try:
        with stopped(arena.database_pid):
            client.send_until_stuck(query(STATEMENT), lambda: settled([_pid(rival)]))
            yield
    finally:
        client.abandon()


ONE_READER = ("1 stalled reader of 1 GB, 1 KB rows", "1 stalled reader of 1 GB, 20 MB rows")
CASES: dict[str, Callable[[Arena, Rival], Iterator[None]]] = {
    ONE_READER[0]: _readers(SMALL_ROWS, 1),
    ONE_READER[1]: _readers(LARGE_ROWS, 1),
    "20 stalled readers of 100 MB each": _readers(HUNDRED_MB, 20),
    "60 MB statement, database stopped": _large_statement,
}


def _measure(arena: Arena, repeats: int, tell: Tell) -> Outcome:
    series = []
    for name, case in CASES.items():
        tell(name)
        gate, rival = arena.new_gate()
        rival.connect().close()
        pid = _pid(rival)
        before = resident_bytes(pid)
        reset_peak(pid)
        with contextlib.contextmanager(case)(arena, rival):
            settled([pid, arena.database_pid])
            one = Series(name)
            one.add({"peak MB": peak_bytes(pid) / MB, "before MB": before / MB, "in sockets MB": socket_mb(pid)})
            series.append(one)
        gate.stop()
    return Outcome("stalled", "Memory held for clients that stand still", "peak MB", series, ())


def socket_mb(pid: int) -> float:
    """What the kernel holds in the send and receive queues of a process's TCP sockets: sent and not taken, come and not
    read. It is no part of the resident memory; net.ipv4.tcp_wmem and tcp_rmem bound it for each socket."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", str(file.readlink())))
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes:
            total += sum(int(size, 16) for size in fields[4].split(":"))
    return total / MB


def _pid(rival: Rival) -> int:
    assert rival.pid is not None
    return rival.pid


PARTS = (Special("stalled", "Memory held for clients that stand still", _measure),)
