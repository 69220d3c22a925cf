"""Sockets that do not log in: they keep nobody out, and cost nobody more than moments."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pymysql
import pytest
from servers import Gate, Sql, free_port, login_errno, wait_until
from slowness import scaled

from proxy.admin import http
from proxy.cluster import mesh

LIMITS = {"max_connections": 60, "unauthenticated_connections": 10, "unauthenticated_per_address": 5}
PATIENCE = {"login_timeout": "60s"}  # none of them is ever dropped for being slow


def silent_sockets(gate: Gate, count: int, address: str, stack: ExitStack) -> list[socket.socket]:
    return [
        stack.enter_context(socket.create_connection(("127.0.0.1", gate.port), 20, source_address=(address, 0)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"], ids=["own-address", "other-address"])
def test_more_silent_sockets_than_there_are_places_keep_nobody_out(new_gate, address):
    gate = new_gate(limits={**LIMITS, **PATIENCE}).start()
    with ExitStack() as stack:
        silent_sockets(gate, 80, address, stack)
        for _ in range(5):
            started = time.monotonic()
            client = Sql(gate.connect())
            assert client.value("SELECT 1") == 1
            assert time.monotonic() - started < scaled(8)  # a second until the first silent ones are dropped
            client.close()
    assert "limits.unauthenticated_connections is reached" in gate.log


def test_another_address_does_not_even_wait_for_the_silent_ones(new_gate):
    """They hold no more than their address's share of the turns: if they held all, one would have to lose its own.

    After a second they lose them to others of their own address. On a busy machine that may be too soon to see that
    none had to: then that round shows nothing.
    """
    gate = new_gate(limits={**LIMITS, **PATIENCE, "max_connections": 1000, "connection_errors": 0}).start()
    assert any(all_log_in_before_a_silent_one_goes(gate) for _ in range(20))


def all_log_in_before_a_silent_one_goes(gate: Gate) -> bool:
    with ExitStack() as stack:
        silent = silent_sockets(gate, 40, "127.0.0.2", stack)
        for sock in silent:
            sock.setblocking(False)
        for _ in range(5):
            client = Sql(gate.connect())
            assert client.value("SELECT 1") == 1
            client.close()
        return not any(hung_up_on(sock) for sock in silent)


def test_the_dropped_one_is_told_why(new_gate):
    gate = new_gate(limits={**LIMITS, **PATIENCE, "unauthenticated_connections": 1}).start()
    with ExitStack() as stack:
        (first, *_) = silent_sockets(gate, 1, "127.0.0.2", stack)
        first.settimeout(20)
        first.recv(4096)  # the greeting
        gate.connect().close()
        told = first.recv(4096)
        assert told[4:7] == b"\xff\x10\x04"  # error 1040
        assert b"limits.unauthenticated_connections" in told
        assert b"log in at once" in told


def test_who_breaks_off_too_often_is_blocked_and_others_are_not(new_gate):
    gate = new_gate(limits={"connection_errors": 20}).start()
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", gate.port), 20, source_address=("127.0.0.2", 0)) as sock:
            sock.recv(1)
    blocked = wait_until(lambda: told_to(gate, "127.0.0.2"), what="the address to be blocked")
    assert blocked[0] == 1129
    assert "limits.connection_errors" in blocked[1]
    for _ in range(30):
        gate.connect().close()
    assert login_errno(gate) == 0


def test_silent_connections_at_the_admin_port_cost_other_addresses_nothing(new_gate):
    port = free_port()
    new_gate(admin={"listen": f"127.0.0.1:{port}"}).start()
    with ExitStack() as stack:
        honest = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        crowd(port, 2 * http.CONNECTIONS_MAX, stack)
        honest.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        honest.settimeout(20)
        assert b" 200 " in honest.recv(4096)


def test_silent_links_at_the_peers_port_cost_other_addresses_nothing(new_gate, place):
    port = free_port()
    if place == "embedded":
        pytest.skip("the embedded backend has no other proxies")
    new_gate(peers={"listen": f"127.0.0.1:{port}"}, workers=1).start()
    with ExitStack() as stack:
        honest = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        crowd(port, 2 * mesh.UNAUTHENTICATED_MAX, stack)
        honest.setblocking(False)
        try:
            assert honest.recv(4096), "its own greeting, or nothing: it has not been hung up on"
        except BlockingIOError:
            pass


def crowd(port: int, count: int, stack: ExitStack) -> None:
    """Sockets of another address that say nothing; some have been hung up on when this returns."""
    silent = []
    for _ in range(count):
        silent.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.2", 0))))
        silent[-1].setblocking(False)
    wait_until(lambda: any(hung_up_on(one) for one in silent), what="the crowd to be cut down")


def hung_up_on(sock: socket.socket) -> bool:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def told_to(gate: Gate, address: str):
    try:
        gate.connect(bind_address=address).close()
    except pymysql.err.OperationalError as error:
        return error.args if error.args[0] == 1129 else None  # or it was hung up on without a word
    return None
