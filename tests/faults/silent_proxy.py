"""Two proxies of one database, the first of which can fall silent in the middle of transactions that a test chooses.

Silent in two ways: its process stands still (SIGSTOP, a paused machine, power lost), or its network is cut without a
word to either end, to the database and to the other proxy. In both the server sees sessions that say nothing more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cutter import Cutter
from network_namespace import NamespaceError, NetworkNamespace
from servers import ROOT, Gate, MariaDb, Sql, wait_until

FROZEN, CUT_OFF = "frozen", "cut off"


class DistantGate(Gate):
    """A gate in a network namespace, with the clients beside it that `connect` makes."""

    def __init__(self, namespace: NetworkNamespace, *given: Any, **config: Any) -> None:
        super().__init__(*given, **config)
        self._namespace = namespace
        self.launch = self._launch  # type: ignore[method-assign]

    def _launch(self, arguments: Any, log: Any, environment: Any) -> subprocess.Popen[bytes]:
        command = self._namespace.command(sys.executable, "-m", "queuegate", *arguments)
        return subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=dict(environment)
        )

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        return self._namespace.inside(lambda: super(DistantGate, self).connect(**options))


class Two:
    """`silent`, which leads until it falls silent, and `other`. `cutter` is between the first and its database."""

    def __init__(self, mariadb: MariaDb, folder: Path, database: str, namespace: NetworkNamespace | None) -> None:
        self.mariadb, self.database = mariadb, database
        self._namespace, self._folder = namespace, folder
        self.cutter = Cutter(mariadb.port, "127.0.0.1" if namespace is None else namespace.here)
        self._is_silent = False
        mariadb.fresh_database(database)

    def start(self, **config: Any) -> Two:
        """Both, linked."""
        host = "127.0.0.1" if self._namespace is None else self._namespace.here
        url = f"mysql://root@{host}:{self.cutter.port}/{self.database}?ssl=disabled"  # the cutter reads along
        folders = [self._folder / name for name in ("silent", "other")]
        for folder in folders:
            folder.mkdir()
        options = {"database": self.database, "workers": 1, **config}
        if self._namespace is None:
            self.silent = Gate(url, folders[0], **options).start()
        else:
            self.silent = DistantGate(self._namespace, url, folders[0], **options).start()
        self.other = Gate(self.mariadb.url(self.database), folders[1], **options).start()
        wait_until(
            lambda: all("linked to another proxy" in gate.log for gate in (self.silent, self.other)),
            30,
            "the proxies to be linked",
        )
        return self

    def fall_silent(self) -> None:
        """And what the database answers from now on finds no reader; what the cutter holds goes on."""
        self._is_silent = True
        if self._namespace is None:
            assert self.silent.process is not None
            os.kill(self.silent.process.pid, signal.SIGSTOP)
        else:
            self._namespace.cut()
        self.cutter.let_go()

    def go_on(self) -> None:
        if self._is_silent:
            self._is_silent = False
            if self._namespace is None:
                assert self.silent.process is not None
                os.kill(self.silent.process.pid, signal.SIGCONT)
            else:
                self._namespace.mend()

    def serves(self) -> bool:
        """Whether the one that was silent enqueues and delivers again."""
        try:
            with contextlib.closing(Sql(self.silent.connect(connect_timeout=5, read_timeout=20))) as client:
                client("CREATE QUEUE IF NOT EXISTS afterwards (n INT)")
                client("INSERT INTO afterwards (n) VALUES (1)")
                return client.rows("SELECT n FROM STREAM afterwards LIMIT 1 WAIT 5") == [(1,)]
        except (pymysql.err.MySQLError, OSError):
            return False

    def stop(self) -> None:
        self.go_on()
        try:
            for name in ("other", "silent"):
                if hasattr(self, name):
                    getattr(self, name).stop()
        finally:
            self.cutter.close()


@contextlib.contextmanager
def two_proxies(mode: str, mariadb: MariaDb, folder: Path, database: str) -> Iterator[Two]:
    """`mode`: how the first falls silent. Not started. Skips where there can be no network namespace."""
    with contextlib.ExitStack() as stack:
        namespace = None
        if mode == CUT_OFF:
            try:
                namespace = NetworkNamespace()
            except NamespaceError as error:
                pytest.skip(f"cut off from its network: NOT tested here: {error}")
            stack.callback(namespace.remove)
        both = Two(mariadb, folder, database, namespace)
        stack.callback(both.stop)
        yield both
