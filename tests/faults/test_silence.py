"""Clients that give no sign, and clients that are only slow: the first are given up, the others are waited for."""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from pathlib import Path

import pytest
from servers import Gate, MariaDb, Sql, Stream, numbers, wait_until

from benchmarks.wire import BareClient

SLOW_SECONDS = 40.0  # longer than it takes to give up one that has vanished
SO_ATTACH_FILTER = 26  # asm-generic/socket.h


def vanish(sock: socket.socket) -> None:
    """From now on this socket's kernel drops whatever comes for it, as if the cable were cut: not even an ACK."""
    drop_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K: keep 0 bytes
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", 1, ctypes.addressof(drop_all)))


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="what the kernel tells of a peer is Linux's")
def test_who_vanished_is_given_up_and_who_is_slow_is_waited_for(own_mariadb: MariaDb, tmp_path: Path) -> None:
    server = Sql(own_mariadb.connect())
    server("SET GLOBAL net_write_timeout = 600")  # else the server itself gives up a slow reader after a minute
    server.close()
    gate = Gate(own_mariadb.url(), tmp_path).start()
    slow = BareClient(gate.connect(ssl_disabled=True))
    slow.stall(f"SELECT seq, REPEAT('x', 1000) FROM {numbers(50_000)}")
    since = time.monotonic()

    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h')")
    vanished = Stream(gate, "SELECT n FROM STREAM q WITH (prefetch = 100)", ssl_disabled=True)
    client("INSERT INTO q (n) VALUES (1)")
    vanished.wait(1)
    vanish(vanished.connection._sock)
    client("INSERT INTO q (n) VALUES (2)")  # leased to it, sent, and never acknowledged by anybody
    with Stream(gate, "SELECT n FROM STREAM q") as heir:
        assert sorted(row[0] for row in heir.wait(2, 80)) == [1, 2]
    assert "gives no sign" in gate.log

    wait_until(lambda: time.monotonic() - since > SLOW_SECONDS, SLOW_SECONDS + 10, "the slow reader to go on")
    slow.read_exactly(50_000_000)
    slow.abandon()
    vanished.close()
    client.close()
    gate.stop()
