"""A private Vitess 24 of programs of its own: etcd, vtctld, vtgate, and for each tablet a vttablet and a MySQL.

A vtcombo (tests/vitess_server.py) has neither replicas nor VReplication. Here a shard can change its primary, and a
keyspace its shards. As in a Vitess of users, the databases of all shards have the same name.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pymysql
from mysql_server import VERSION as MYSQL_VERSION
from mysql_server import MySql
from servers import DATABASE, MariaDb, free_port, wait_until
from vitess_programs import etcd, started, vitess_program
from vitess_server import BINLOG, SHARDED, VINDEXES, keyspaces_answer

_CELL = "zone1"
_USERS = ("app", "dba", "appdebug", "allprivs", "repl", "filtered")


class VitessCluster(MariaDb):
    """See the module. Clients have no passwords, and there are no accounts: root, who may do everything.

    Args:
        shards: those of the keyspace SHARDED.
        replicas: tablets of each of its shards besides the primary.
        buffer: statements of clients wait in the vtgate while a primary changes, and do not fail.
    """

    def __init__(self, shards: Sequence[str] = ("-80", "80-"), *, replicas: int = 1, buffer: bool = True) -> None:
        super().__init__()
        self._programs = {
            name: _near(self.directory, vitess_program(name)) for name in ("vtctld", "vtgate", "vttablet")
        }
        self._client = vitess_program("vtctldclient")
        self._etcd = _Etcd(_near(self.directory, etcd()), self.directory)
        self._shards, self._replicas = tuple(shards), replicas
        self._buffer = buffer
        self._control: subprocess.Popen[bytes] | None = None
        self._control_port = free_port()
        self.tablets: list[Tablet] = []

    def install(self) -> None:
        """Make the keyspaces, and start the topology server and the tablets."""
        self.directory.chmod(0o755)
        for name in ("vtgate", "vtctld"):
            (self.directory / name).mkdir()
        self._etcd.start()
        self._control = started(
            self._programs["vtctld"],
            [
                *self._etcd.options, f"--cell={_CELL}", f"--port={free_port()}", f"--grpc-port={self._control_port}",
                "--bind-address=127.0.0.1", "--grpc-bind-address=127.0.0.1", "--service-map=grpc-vtctl,grpc-vtctld",
            ],
            self.directory / "vtctld.log", root=self.directory / "vtctld",
        )  # fmt: skip
        wait_until(lambda: _listens(self._control_port), 60, f"vtctld; see {self.directory / 'vtctld.log'}")
        self.control("AddCellInfo", f"--root=/vitess/{_CELL}", f"--server-address={self._etcd.address}", _CELL)
        for keyspace in (DATABASE, SHARDED):
            self.control("CreateKeyspace", "--durability-policy=none", keyspace)
        self.add_shard(DATABASE, "0", replicas=0)
        for shard in self._shards:
            self.add_shard(SHARDED, shard, replicas=self._replicas)
        for keyspace, vschema in ((DATABASE, {}), (SHARDED, {"sharded": True, "vindexes": VINDEXES})):
            self.control("ApplyVSchema", f"--vschema={json.dumps({**vschema, 'tables': {}})}", keyspace)

    def start(self) -> None:
        """Start the vtgate, and wait until it answers."""
        self._process = started(
            self._programs["vtgate"],
            [
                *self._etcd.options, f"--cell={_CELL}", f"--cells-to-watch={_CELL}", "--tablet-types-to-wait=PRIMARY",
                f"--mysql-server-port={self.port}", "--mysql-server-bind-address=127.0.0.1",
                "--mysql-auth-server-impl=none", f"--mysql-server-version={MYSQL_VERSION}-Vitess",
                f"--grpc-port={free_port()}", "--grpc-bind-address=127.0.0.1", f"--port={free_port()}",
                "--bind-address=127.0.0.1", "--vschema-ddl-authorized-users=%", "--enable-online-ddl=true",
                "--enable-direct-ddl=true", "--allow-kill-statement", f"--enable-buffer={str(self._buffer).lower()}",
            ],
            self.directory / "log", root=self.directory / "vtgate",
        )  # fmt: skip
        wait_until(self._answers, 120, f"Vitess to start; see {self.directory / 'log'}")

    def prepare(self) -> None:
        """See MariaDb: there are no accounts, and the keyspaces are there."""

    def add_shard(self, keyspace: str, shard: str, *, replicas: int = 0) -> list[Tablet]:
        """Start the tablets of a shard; the first becomes its primary. They are returned."""
        added = []
        for _ in range(replicas + 1):
            added.append(self._started_tablet(keyspace, shard))
        for tablet in added:
            wait_until(lambda tablet=tablet: tablet.alias in self.control("GetTablets"), 120, f"{tablet.alias}")
        self.control("PlannedReparentShard", f"{keyspace}/{shard}", f"--new-primary={added[0].alias}")
        return added

    def _started_tablet(self, keyspace: str, shard: str) -> Tablet:
        uid = 100 + len(self.tablets)
        tablet = Tablet(uid, keyspace, shard, program=self._programs["vttablet"], options=self._etcd.options)
        self.tablets.append(tablet)
        tablet.start()
        return tablet

    def reparent(self, shard: str) -> None:
        """Make a replica of a shard of SHARDED its primary, as an operator does before maintenance."""
        self.control("PlannedReparentShard", f"{SHARDED}/{shard}")

    def crash_primary(self, shard: str) -> None:
        """kill -9 of a shard's primary, with its MySQL; a replica becomes primary, and the old one a replica."""
        old = self.primary(shard)
        old.kill()
        self.control("EmergencyReparentShard", f"{SHARDED}/{shard}")
        old.start()

    def primary(self, shard: str) -> Tablet:
        """The tablet that the topology says is the primary of a shard of SHARDED."""
        record = json.loads(self.control("GetShard", f"{SHARDED}/{shard}"))["shard"]["primary_alias"]
        alias = f"{record['cell']}-{int(record['uid']):010d}"
        return next(tablet for tablet in self.tablets if tablet.alias == alias)

    def reshard(self, workflow: str, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Have shards of SHARDED copied to others, which are made; returns once they follow."""
        for shard in targets:
            self.add_shard(SHARDED, shard)
        self._reshard(
            workflow, "create", f"--source-shards={','.join(sources)}", f"--target-shards={','.join(targets)}",
            "--tablet-types=primary",
        )  # fmt: skip
        wait_until(lambda: self._copied(workflow), 120, f"{workflow} to follow")

    def switch(self, workflow: str) -> None:
        """Clients use the shards that were copied to."""
        self._reshard(workflow, "SwitchTraffic", "--max-replication-lag-allowed=30s", "--timeout=60s")

    def switch_back(self, workflow: str) -> None:
        """Clients use the shards of before, to which everything was copied meanwhile."""
        self._reshard(workflow, "ReverseTraffic", "--max-replication-lag-allowed=30s", "--timeout=60s")

    def complete(self, workflow: str, sources: Sequence[str]) -> None:
        """End a resharding, and remove the shards of before."""
        self._reshard(workflow, "complete")
        self.control("DeleteShards", "--recursive", "--force", *(f"{SHARDED}/{shard}" for shard in sources))
        for tablet in self.tablets:
            if tablet.keyspace == SHARDED and tablet.shard in sources:
                tablet.stop()

    def _reshard(self, workflow: str, *command: str) -> str:
        return self.control("Reshard", f"--workflow={workflow}", f"--target-keyspace={SHARDED}", *command)

    def _copied(self, workflow: str) -> bool:
        shown = self._reshard(workflow, "show")
        states = [stream["state"] for shard in json.loads(shown)["workflows"][0]["shard_streams"].values()
                  for stream in shard["streams"]]  # fmt: skip
        return bool(states) and set(states) == {"Running"}

    def control(self, *command: str, seconds: float = 120) -> str:
        """What a command of vtctldclient answers."""
        done = subprocess.run(
            [str(self._client), f"--server=127.0.0.1:{self._control_port}", *command],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def stop(self) -> None:
        """End all of it; the data of the tablets stays."""
        if self.runs:
            self.kill()
        for tablet in self.tablets:
            tablet.stop()
        if self._control is not None:
            self._control.kill()
            self._control.wait(60)
            self._control = None
        self._etcd.stop()

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        super().remove()
        for tablet in self.tablets:
            tablet.remove()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the vtgate ended; see {self.directory / 'log'}"
        return keyspaces_answer(self)


class Tablet:
    """A vttablet and its MySQL."""

    def __init__(self, uid: int, keyspace: str, shard: str, *, program: Path, options: Sequence[str]) -> None:
        self.alias = f"{_CELL}-{uid:010d}"
        self.keyspace, self.shard = keyspace, shard
        self.mysql = MySql([*BINLOG, "--skip-replica-start", f"--server-id={uid}"])
        self._uid, self._program, self._options = uid, program, options
        self._root = self.mysql.directory / "vt"
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = [free_port(), free_port()]

    def start(self) -> None:
        """Start what does not run."""
        if not self._root.exists():
            self.mysql.directory.chmod(0o755)
            self._root.mkdir()
            self.mysql.install()
            self.mysql.start()
            self.mysql.prepare()
            with pymysql.connect(unix_socket=str(self.mysql.socket), user="root") as connection:
                connection.cursor().execute("RESET MASTER")  # all tablets begin alike
        elif not self.mysql.runs:
            self.mysql.start()
        if self._process is None:
            self._process = started(self._program, self._arguments(), self.mysql.directory / "vt.log", root=self._root)

    def _arguments(self) -> list[str]:
        port, grpc_port = self._ports
        return [
            *self._options, f"--tablet-path={self.alias}", "--tablet-hostname=127.0.0.1",
            f"--init-keyspace={self.keyspace}", f"--init-shard={self.shard}", "--init-tablet-type=replica",
            "--health-check-interval=1s", f"--port={port}", f"--grpc-port={grpc_port}", "--bind-address=127.0.0.1",
            "--grpc-bind-address=127.0.0.1", "--service-map=grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
            *(f"--db-{user}-user=root" for user in _USERS), f"--db-socket={self.mysql.socket}",
            f"--mycnf-server-id={self._uid}", f"--mycnf-socket-file={self.mysql.socket}",
            f"--mycnf-mysql-port={self.mysql.port}", "--db-charset=utf8mb4",
        ]  # fmt: skip

    def kill(self) -> None:
        """kill -9 of both."""
        self._kill_tablet()
        self.mysql.kill()

    def stop(self) -> None:
        """End both; the data stays."""
        self._kill_tablet()
        self.mysql.stop()

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        self._kill_tablet()
        self.mysql.remove()

    def _kill_tablet(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None


class _Etcd:
    def __init__(self, program: Path, directory: Path) -> None:
        self._program, self._directory = program, directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"http://127.0.0.1:{self._port}"
        self.options = (
            "--topo-implementation=etcd2", f"--topo-global-server-address={self.address}",
            "--topo-global-root=/vitess/global",
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        peers = f"http://127.0.0.1:{free_port()}"
        root = self._directory / "etcd"
        root.mkdir(exist_ok=True)
        self._process = started(
            self._program,
            [
                f"--data-dir={root / 'data'}", f"--listen-client-urls={self.address}",
                f"--advertise-client-urls={self.address}", f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
            ],
            self._directory / "etcd.log", root=root,
        )  # fmt: skip
        wait_until(lambda: _listens(self._port), 60, f"etcd to start; see {self._directory / 'etcd.log'}")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None


def _near(directory: Path, program: Path) -> Path:
    """A copy: the cache may be where nobody else may look."""
    copy = directory / program.name
    shutil.copy(program, copy)
    return copy


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
