"""What one would write by hand instead: a table, and a loop that claims rows every 100 ms, directly on the database.

On a server the claim is SELECT ... FOR UPDATE SKIP LOCKED; SQLite has no row locks, so there it is BEGIN IMMEDIATE.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing

from benchmarks.places import Place
from tests.servers import DATABASE

INTERVAL_SECONDS = 0.1
CLAIM_ROWS = 100

Arrivals = dict[int, float]
Insert = Callable[[int], None]


class Poller:
    """A receiver that polls. `arrivals` says when each message had been claimed and could be worked on."""

    def __init__(self, place: Place) -> None:
        self.arrivals: Arrivals = {}
        self._place = place
        self._stop = threading.Event()
        work = self._poll_sqlite if place.server is None else self._poll_server
        self._thread = threading.Thread(target=work, daemon=True)

    def start(self) -> None:
        """Make the table and begin to poll."""
        if self._place.server is None:
            with closing(self._open()) as connection:
                connection.execute("CREATE TABLE polled (id INTEGER PRIMARY KEY, n INT, taken INT NOT NULL DEFAULT 0)")
                connection.execute("CREATE INDEX waiting ON polled (taken, id)")
        else:
            with self._place.server.connect(database=DATABASE) as link, link.cursor() as cursor:
                cursor.execute(
                    "CREATE TABLE polled (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT, taken INT NOT NULL DEFAULT 0,"
                    " KEY waiting (taken, id))"
                )
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def inserter(self) -> tuple[Insert, Callable[[], None]]:
        """A function that commits one message, and one that closes its connection."""
        if self._place.server is None:
            connection = self._open()
            return lambda n: connection.execute("INSERT INTO polled (n) VALUES (?)", (n,)) and None, connection.close
        link = self._place.server.connect(database=DATABASE)
        cursor = link.cursor()
        return lambda n: cursor.execute("INSERT INTO polled (n) VALUES (%s)", (n,)) and None, link.close

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._place.directory / "polled.db", isolation_level=None, timeout=10, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _poll_sqlite(self) -> None:
        with closing(self._open()) as connection:
            while not self._stop.is_set():
                connection.execute("BEGIN IMMEDIATE")
                rows = connection.execute(
                    f"SELECT id, n FROM polled WHERE taken = 0 ORDER BY id LIMIT {CLAIM_ROWS}"
                ).fetchall()
                if rows:
                    ids = ", ".join(str(row[0]) for row in rows)
                    connection.execute(f"UPDATE polled SET taken = 1 WHERE id IN ({ids})")
                connection.execute("COMMIT")
                self._note(rows)

    def _poll_server(self) -> None:
        assert self._place.server is not None
        with self._place.server.connect(database=DATABASE) as link, link.cursor() as cursor:
            while not self._stop.is_set():
                cursor.execute("BEGIN")
                cursor.execute(
                    f"SELECT id, n FROM polled WHERE taken = 0 ORDER BY id LIMIT {CLAIM_ROWS} FOR UPDATE SKIP LOCKED"
                )
                rows = list(cursor.fetchall())
                if rows:
                    ids = ", ".join(str(row[0]) for row in rows)
                    cursor.execute(f"UPDATE polled SET taken = 1 WHERE id IN ({ids})")
                cursor.execute("COMMIT")
                self._note(rows)

    def _note(self, rows: list[tuple[int, int]]) -> None:
        now = time.monotonic()
        self.arrivals.update((n, now) for _, n in rows)
        if not rows:
            self._stop.wait(INTERVAL_SECONDS)
