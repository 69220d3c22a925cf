"""A private Galera cluster of three: Debian's MariaDB with galera-4, on free ports of the loopback interface.

The nodes begin as copies of one data directory, so that joining needs no transfer. One that was killed comes back by
what its own log recovers and what the others still have in their caches.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor
from servers import Gate, MariaDb, find_binary, free_port, wait_until
from toolchains import missing

PROVIDER = next(
    (path for path in map(Path, ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"))
     if path.exists()),
    None,
)  # fmt: skip
NODES = 3
_CACHES = shutil.ignore_patterns("galera.cache", "gvwstate.dat")
_RECOVERED = re.compile(r"Recovered position: ([0-9a-f-]+:-?\d+)")


class Node(MariaDb):
    """One node. Never run as root: a cluster's server is not, in production."""

    def __init__(self, number: int, addresses: Sequence[str], account: str) -> None:
        super().__init__()
        self.number, self.account, self._addresses = number, account, addresses
        self._position = ""
        transfer = free_port()
        self.options = [
            "--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", "--wsrep-cluster-name=queuegate-tests",
            "--wsrep-node-address=127.0.0.1", f"--wsrep-node-name=node{number}", "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            "--wsrep-slave-threads=2", "--wsrep-sync-wait=0", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
            f"--wsrep-provider-options=gmcast.listen_addr=tcp://{addresses[number]};ist.recv_addr=127.0.0.1:{transfer}"
            ";gcache.size=256M;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.keepalive_period=PT0.5S",
        ]  # fmt: skip

    def join(self, *, first: bool = False) -> None:
        """Start as a member; `first`: as the cluster's beginning."""
        others = "" if first else ",".join(a for i, a in enumerate(self._addresses) if i != self.number)
        fixed = self.options
        extra = [f"--wsrep-cluster-address=gcomm://{others}"]
        if self._position:
            extra.append(f"--wsrep-start-position={self._position}")
        if first:
            extra.append("--wsrep-new-cluster")
        self.options = [*fixed, *extra]
        try:
            self.start()
        finally:
            self.options = fixed
        wait_until(self.is_synced, 30, f"node {self.number} to be synced; see {self.directory / 'log'}")

    def is_synced(self) -> bool:
        """Whether the node takes statements as a member of the majority."""
        try:
            with self.connect(unix_socket=str(self.socket)) as connection, connection.cursor() as cursor:
                cursor.execute("SHOW STATUS LIKE 'wsrep_local_state_comment'")
                row = cursor.fetchone()
                return row is not None and row[1] == "Synced"
        except pymysql.err.MySQLError:
            return False

    def pause(self) -> None:
        """Stop the process as it is: the others soon take the node for lost."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def recover(self) -> None:
        """After a kill: how far its data had come, which a restart has to say."""
        program = find_binary("mariadbd")
        assert program is not None
        done = subprocess.run(
            [program, "--no-defaults", f"--datadir={self.directory / 'data'}", *self._user(), "--wsrep-recover",
             "--wsrep-cluster-address=gcomm://", "--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", "--binlog-format=ROW",
             "--innodb-log-file-size=64M", f"--tmpdir={self._temporary()}", f"--socket={self.socket}",
             "--skip-log-bin"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = _RECOVERED.search(done.stderr + done.stdout)
        assert found is not None, done.stderr[-2000:]
        self._position = found[1]

    def own(self) -> None:
        """Give the files to the account that the server runs as."""
        if self.account:
            for path in (self.directory, *self.directory.rglob("*")):
                shutil.chown(path, self.account, self.account)

    def _user(self) -> list[str]:
        return [f"--user={self.account}"] if self.account else []


class Cluster:
    """Three nodes; `nodes[0]` begins it."""

    def __init__(self) -> None:
        if PROVIDER is None or find_binary("mariadbd") is None or find_binary("rsync") is None:
            missing("a Galera cluster needs Debian's mariadb-server, galera-4 and rsync")
        account = "mysql" if os.geteuid() == 0 else ""
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(NODES)]
        self.nodes = [Node(number, addresses, account) for number in range(NODES)]

    def start(self) -> None:
        """Make the cluster and wait until all are in it."""
        first, *others = self.nodes
        first._temporary()
        first.install()
        first.own()
        first.join(first=True)
        first.prepare()
        first.stop()  # which writes down how far its data has come
        for node in others:
            shutil.copytree(first.directory / "data", node.directory / "data", ignore=_CACHES)
            node._temporary()
            node.own()
        first.join(first=True)
        for node in others:
            node.join()

    def seem_one_server(self) -> None:
        """As a test of one database expects: reads of clients wait for what other nodes have committed, and ids are
        counted without gaps, which nodes leave so as not to meet."""
        for node in self.nodes:
            with node.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET GLOBAL wsrep_sync_wait = 15, GLOBAL wsrep_auto_increment_control = OFF")
                cursor.execute("SET GLOBAL auto_increment_increment = 1, GLOBAL auto_increment_offset = 1")

    def remove(self) -> None:
        """Stop all of them and leave nothing behind."""
        for node in reversed(self.nodes):
            node.remove()


class GatePair(Gate):
    """Two proxies on two nodes, to a test like one: streams are at the second, all else is said to the first."""

    def __init__(self, cluster: Cluster, directory: Path, **config: Any) -> None:
        super().__init__(cluster.nodes[0].url(), directory, **config)
        (directory / "second").mkdir()
        self.second = Gate(cluster.nodes[1].url(), directory / "second", **config)

    def start(self, environment: Mapping[str, str] | None = None) -> GatePair:
        super().start(environment)
        self.second.start(environment)
        wait_until(lambda: "linked to another proxy" in super(GatePair, self).log, 30, "the proxies to find each other")
        return self

    @property
    def log(self) -> str:
        return super().log + self.second.log

    def stop(self) -> None:
        self.second.stop()
        super().stop()

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        if options.get("cursorclass") is SSCursor:
            return self.second.connect(**options)
        return super().connect(**options)
