"""A proxy for tests: a process with the embedded backend in a folder of its own, which is deleted afterwards.

Tests drop its tables, so it must be no other database: what the environment says to servers is kept from it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pymysql

from queuegate_worker.errors import WorkerError
from queuegate_worker.statements import back_quoted

_LISTENING = re.compile(rb"listening on 127\.0\.0\.1:(\d+)")
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_DATABASE = "main"
_OF_SERVERS = ("QUEUEGATE_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
_COMPILED = "QUEUEGATE_COMPILED"

_PROGRAM = """
import os, shutil, signal, sys, threading

def end_with_parent():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_parent, daemon=True).start()
from queuegate.__main__ import main
code = main()
shutil.rmtree(os.getcwd(), ignore_errors=True)
sys.exit(code)
"""
"""The command queuegate. Its standard input ends with the process of the tests, also where that is killed."""


def environment() -> dict[str, str]:
    """That of this process, without what says where a server stores its data, who its users are, or who waits for it to
    start."""
    return {name: value for name, value in os.environ.items() if name == _COMPILED or not name.startswith(_OF_SERVERS)}


class Server:
    """A running proxy, until the end of its block. It needs the distribution queuegate in the same environment.

        with Server() as server:
            Worker(server.url, "orders").run(book, drain=True)

    Raises WorkerError if it cannot start, with what it says.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Server:
        if find_spec("queuegate") is None:
            raise WorkerError("the server is not installed here: pip install queuegate")
        self._folder = tempfile.mkdtemp(prefix="queuegate-")
        database = Path(self._folder, "queue.db")
        arguments = ["serve", "--listen", "127.0.0.1:0", "--backend", f"sqlite:///{database}"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            cwd=self._folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            self._port = self._wait_for_port(self._process)
            if not database.exists():
                raise WorkerError("the server of the tests serves another database than its own")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._process = self._folder = None

    @property
    def address(self) -> Mapping[str, Any]:
        """Arguments of `pymysql.connect`, and of Worker."""
        return {"host": "127.0.0.1", "port": self._port, "user": "root", "database": _DATABASE}

    @property
    def url(self) -> str:
        """For Worker and QUEUEGATE_URL; with `mysql+pymysql` in place of `mysql` for SQLAlchemy."""
        return f"mysql://root:@127.0.0.1:{self._port}/{_DATABASE}"  # an empty password: else MYSQL_PWD is taken

    def connect(self) -> pymysql.Connection[Any]:
        """A connection of PyMySQL that commits each statement."""
        return pymysql.connect(autocommit=True, **self.address)

    def clear(self) -> None:
        """Drop all queues, topics, tables and views, as a test wants them that comes next."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET @queuegate_allow_drop_table = 1")
            cursor.execute("SET foreign_key_checks = 0")  # so that tables are dropped in any order
            cursor.execute(
                "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = DATABASE()"
            )
            for name, kind in cursor.fetchall():
                what = "VIEW" if kind == "VIEW" else "TABLE"
                cursor.execute(f"DROP {what} IF EXISTS {back_quoted(name)}", ())

    def _wait_for_port(self, process: subprocess.Popen[bytes]) -> int:
        """Read the log up to the line with the port; a thread reads on, so that the server is never held up."""
        assert process.stderr is not None
        log: list[bytes] = []
        deadline = threading.Timer(_START_SECONDS, process.kill)
        deadline.start()
        try:
            for line in process.stderr:
                log.append(line)
                if match := _LISTENING.search(line):
                    threading.Thread(target=_read_on, args=(process.stderr,), daemon=True).start()
                    return int(match[1])
        finally:
            deadline.cancel()
        process.stderr.close()
        raise WorkerError("the server did not start:\n" + b"".join(log[-20:]).decode(errors="replace"))


def _read_on(log: IO[bytes]) -> None:
    with log:
        for _ in log:
            pass
