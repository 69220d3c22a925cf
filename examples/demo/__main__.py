"""`make demo`: what queuegate promises, shown with PyMySQL on a temporary file.

Ends by itself; the exit code is 1 if a promise breaks. Everything a client does here is plain SQL on an ordinary MySQL
driver. The only thing that is not a client's business is `Server`, which starts the proxy as a user would, and kills
it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pymysql

from queuegate_worker.testing.server import environment

T = TypeVar("T")
Row = tuple[Any, ...]


class BrokenPromise(Exception):
    """The demonstration did not show what it should have."""


class Server:
    """A queuegate process on a database file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        log = self._directory / "log"
        log.write_text("")
        command = [sys.executable, "-m", "queuegate", "serve", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--backend", f"sqlite:///{self._directory}/queue.db"]
        with log.open("ab") as stream:
            self._process = subprocess.Popen(command, stderr=stream, env=environment())
        found = within(15, "queuegate to start", lambda: re.search(r"listening on [\d.]+:(\d+)", log.read_text()))
        self.port = int(found[1])

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """An orderly end; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(20)
        self._process = None
        return code

    def client(self) -> Client:
        return Client(self.port)


class Client:
    """One connection; every statement is printed with its answer."""

    def __init__(self, port: int) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1", port=port, user="root", database="main", autocommit=True, read_timeout=30
        )

    def __call__(self, sql: str, *params: object) -> int:
        """Run a statement; returns how many rows it changed."""
        with self._connection.cursor() as cursor:
            changed = int(cursor.execute(sql, params or None))
            say_sql(str(cursor.mogrify(sql, params or None)), _told(sql, changed))
            return changed

    def rows(self, sql: str) -> list[Row]:
        """Run a query; returns its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            say_sql(sql, ", ".join(str(row) for row in rows) or "nothing")
            return rows


def within(seconds: float, what: str, look: Callable[[], T | None]) -> T:
    """The first thing `look` finds, asked for at most so long."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise BrokenPromise(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)
    return found


def promise(kept: bool, text: str) -> None:
    """State a promise, or stop where it is broken."""
    if not kept:
        raise BrokenPromise(text)
    say(f"    -> {text}")


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _told(sql: str, changed: int) -> str:
    """The answer to a statement without rows, as the command-line client would put it."""
    counts = sql.split(maxsplit=1)[0] in ("INSERT", "UPDATE", "DELETE", "ACK")
    return f"{changed} row{'s' * (changed != 1)} affected" if counts else "ok"


def say_sql(sql: str, answer: str) -> None:
    say(f"    {sql}\n        {answer}")


def produce_and_receive(server: Server) -> None:
    say("\n1. A queue is a table. A message commits with your business row, or not at all.")
    sql = server.client()
    sql(
        "CREATE QUEUE orders (customer VARCHAR(40), total INT)"
        " WITH (ack_wait = '1s', min_backoff = '100ms', max_backoff = '1s')"
    )
    sql("CREATE TABLE account (name VARCHAR(40) PRIMARY KEY, balance INT)")
    sql("INSERT INTO account (name, balance) VALUES ('ann', 100)")
    for end in ("ROLLBACK", "COMMIT"):
        sql("BEGIN")
        sql("UPDATE account SET balance = balance - 30 WHERE name = 'ann'")
        sql("INSERT INTO orders (customer, total) VALUES ('ann', 30)")
        sql(end)
    promise(sql.rows("SELECT balance FROM account") == [(70,)], "paid once")
    received = server.client().rows("SELECT id, customer, total, epoch FROM STREAM orders LIMIT 10 WAIT 5")
    promise([row[1:] for row in received] == [("ann", 30, 1)], "and one message: the rolled-back one never existed")


def retry_and_ack(server: Server) -> None:
    say("\n2. Nobody acked it, so it comes again, with epoch counting the deliveries.")
    sql = server.client()
    started = time.monotonic()
    again = sql.rows("SELECT id, customer, epoch FROM STREAM orders LIMIT 1 WAIT 10")
    promise([row[2] for row in again] == [2], f"second delivery, {time.monotonic() - started:.1f} s later")
    identity = again[0][0]
    promise(sql("ACK orders %s", identity) == 1, "acked")
    promise(sql("ACK orders %s", identity) == 0, "a second ack changes nothing, and says so")
    promise(sql.rows("SELECT id FROM STREAM orders LIMIT 1 WAIT 3") == [], "it does not come again")


def schedule(server: Server) -> None:
    say("\n3. A message may be scheduled; a timer fires it, not a poll.")
    sql = server.client()
    due = time.time_ns() + 2_000_000_000
    sql("INSERT INTO orders (customer, total) VALUES ('later', 1) DELAY '2s'")
    promise(sql.rows("SELECT id FROM STREAM orders LIMIT 1 NOWAIT") == [], "not before its time")
    rows = sql.rows("SELECT id, customer FROM STREAM orders LIMIT 1 WAIT 10")
    late = (time.time_ns() - due) / 1e6
    promise([row[1] for row in rows] == ["later"] and late >= -2, f"{late:.0f} ms after its time")
    promise(sql("ACK orders %s", rows[0][0]) == 1, "acked")


def kill_and_survive(server: Server) -> None:
    say("\n4. kill -9: the table is the only truth.")
    sql = server.client()
    sql("INSERT INTO orders (customer, total) VALUES ('bob', 1), ('cid', 2), ('dan', 3)")
    (first, *_), (second, *_) = sql.rows("SELECT id, customer FROM STREAM orders LIMIT 2")
    promise(sql("ACK orders %s", first) == 1, "one received and acked, one received and not acked, one still waiting")
    say("    kill -9 ...")
    server.kill()
    server.start()
    say("    ... and started again")
    sql = server.client()
    got: dict[Any, int] = {}
    while len(got) < 2:
        rows = sql.rows("SELECT id, customer, epoch FROM STREAM orders LIMIT 2 WAIT 10")
        promise(bool(rows), "still there")
        got.update((row[0], row[2]) for row in rows)
    promise(first not in got, "the acked one did not come back")
    promise(got.get(second, 0) >= 2, "the one that was out came again")
    promise(sql("ACK orders " + ", ".join(str(identity) for identity in got)) == 2, "both acked")
    promise(sql.rows("SELECT COUNT(*) FROM orders WHERE state <> 'acked'") == [(0,)], "nothing lost, nothing left")


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="queuegate-demo-") as directory:
        server = Server(Path(directory))
        try:
            server.start()
            say(f"queuegate serves MySQL clients on 127.0.0.1:{server.port}, messages in {directory}/queue.db")
            for chapter in (produce_and_receive, retry_and_ack, schedule, kill_and_survive):
                chapter(server)
            promise(server.stop() == 0, "and an orderly end")
        except BrokenPromise as broken:
            say(f"\nBROKEN PROMISE: {broken}")
            return 1
        finally:
            server.kill()
    say(f"\nAll promises kept, in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
