"""An attacker with one account and one address, as a process of its own: `python attacks.py KIND PORT DATABASE`.

It prints `ready` once the attack is under way, and goes on until its standard input is closed. What it does in a loop
it does at a pace that leaves the machine to others: it is the proxy's time that it is after, not the processor's.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

ADDRESS = "127.0.0.2"
ACCOUNT = {"user": "attacker", "password": "known"}
SOCKETS, STREAMS, READERS, GIANTS = 600, 40, 5, 30
STORM_SECONDS = 0.002  # between two connections
GUESS_SECONDS = 0.005

Place = tuple[int, str]
"""Port and database."""


def sock(place: Place) -> socket.socket:
    return socket.create_connection(("127.0.0.1", place[0]), 20, source_address=(ADDRESS, 0))


def log_in(place: Place, **options: Any) -> pymysql.Connection[Any]:
    port, database = place
    account = {**ACCOUNT, **options}
    return pymysql.connect(host="127.0.0.1", port=port, database=database, bind_address=ADDRESS, **account)


def silent(place: Place) -> Iterator[object]:
    """As many sockets that say nothing as there are, each made anew when it is dropped."""
    held = [sock(place) for _ in range(SOCKETS)]
    yield held
    while True:
        for number, one in enumerate(held):
            one.setblocking(False)
            try:
                while one.recv(4096):
                    pass
            except BlockingIOError:
                continue
            except OSError:
                pass
            one.close()
            held[number] = sock(place)
            time.sleep(STORM_SECONDS)
        yield


def storm(place: Place) -> Iterator[object]:
    """Connections that end as soon as they have begun."""
    while True:
        one = sock(place)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        time.sleep(STORM_SECONDS)
        yield


def guesses(place: Place) -> Iterator[object]:
    """Wrong passwords."""
    while True:
        try:
            log_in(place, password="wrong").close()
        except pymysql.MySQLError:
            pass
        time.sleep(GUESS_SECONDS)
        yield


def filters(place: Place) -> Iterator[object]:
    """Streams of different conditions, of which each has the table scanned."""
    held = []
    for n in range(STREAMS):
        cursor = log_in(place, cursorclass=SSCursor).cursor()
        held.append(cursor)  # one that is collected reads its result to the end, which does not come
        try:
            cursor.execute(f"SELECT n FROM STREAM victim WHERE n = {-1 - n}")
        except pymysql.MySQLError:
            pass
    yield held
    while True:
        time.sleep(0.1)
        yield


def subscriptions(place: Place) -> Iterator[object]:
    """Streams that receive nothing."""
    held = [log_in(place, cursorclass=SSCursor).cursor() for _ in range(STREAMS)]
    for cursor in held:
        cursor.execute("SELECT n FROM STREAM other")
    yield held
    while True:
        time.sleep(0.1)
        yield


def unread(place: Place) -> Iterator[object]:
    """Results of which nobody takes a byte."""
    held = [log_in(place, cursorclass=SSCursor) for _ in range(READERS)]
    for connection in held:
        connection._execute_command(3, "SELECT filler FROM fillers")
    yield held
    while True:
        time.sleep(0.1)
        yield


def giants(place: Place) -> Iterator[object]:
    """Packets announced as large as can be, of which a few bytes come now and then."""
    held = [log_in(place) for _ in range(GIANTS)]
    for connection in held:
        connection._sock.sendall(b"\xff\xff\xff\x00\x03SELECT '")
    yield held
    while True:
        for number, connection in enumerate(held):
            try:
                connection._sock.sendall(b"x")
            except OSError:
                held[number] = log_in(place)
                held[number]._sock.sendall(b"\xff\xff\xff\x00\x03SELECT '")
        time.sleep(0.2)
        yield


ATTACKS: dict[str, Callable[[Place], Iterator[object]]] = {
    attack.__name__: attack for attack in (silent, storm, guesses, filters, subscriptions, unread, giants)
}


def main() -> None:
    kind, port, database = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    announced = False
    for _ in ATTACKS[kind]((int(port), database)):
        if not announced:
            print("ready", flush=True)
            announced = True
        if over.is_set():
            return


if __name__ == "__main__":
    main()
