"""A private Vitess 24: vtcombo, which is vtgate, tablets and topology in one process, over a private MySQL.

A vtcombo has all its tablets over one mysqld, so each shard has a database of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence

import pymysql
from mysql_server import VERSION as MYSQL_VERSION
from mysql_server import MySql
from servers import DATABASE, MariaDb, free_port, wait_until
from vitess_programs import started, unprivileged, vitess_program

BINLOG = (
    "--log-bin=binlog", "--binlog-format=ROW", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
    "--log-replica-updates=ON",
)  # fmt: skip
VINDEXES = {name: {"type": name} for name in ("hash", "xxhash", "binary_md5", "numeric")}

SHARDED = "test"
"""A keyspace of several shards, besides that of DATABASE, which has one."""


class Vitess(MariaDb):
    """See the module. Clients have no passwords, and there are no accounts: root, who may do everything.

    Args:
        options: further options of mysqld.
        shards: those of the keyspace SHARDED.
    """

    def __init__(self, options: Sequence[str] = (), *, shards: Sequence[str] = ("-80", "80-")) -> None:
        program = vitess_program("vtcombo")
        self._mysql = MySql([*BINLOG, *options])
        super().__init__()
        self._program, self._shards = self.directory / "vtcombo", shards
        shutil.copy(program, self._program)  # the cache may be where nobody else may look

    def install(self) -> None:
        """Make the server below, and the databases of the tablets."""
        self._mysql.install()
        self._mysql.start()
        self._mysql.prepare()
        with pymysql.connect(unix_socket=str(self._mysql.socket), user="root", autocommit=True) as connection:
            for name in ("_vt", f"vt_{DATABASE}", *map(_database, self._shards)):
                connection.cursor().execute(f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4")
        schema = self.directory / "schema"
        for keyspace, vschema in ((DATABASE, {}), (SHARDED, {"sharded": True, "vindexes": VINDEXES})):
            (schema / keyspace).mkdir(parents=True)
            (schema / keyspace / "vschema.json").write_text(json.dumps({**vschema, "tables": {}}))
        for folder in (self.directory, self._mysql.directory):
            folder.chmod(0o755)
        (self.directory / "vschema").mkdir()

    def start(self) -> None:
        """Start what does not run, and wait until it answers."""
        if not self._mysql.runs:
            self._mysql.start()
        if not self.runs:
            self._start_vtcombo()
        wait_until(self._answers, 120, f"Vitess to start; see {self.directory / 'log'}")

    def _start_vtcombo(self) -> None:
        root = self.directory / "vt"
        (root / "tmp").mkdir(parents=True, exist_ok=True)
        unprivileged(root / "tmp", self.directory / "vschema")
        self._process = started(self._program, self._options(), self.directory / "log", root=root)

    def _options(self) -> list[str]:
        users = ("app", "dba", "appdebug", "allprivs", "repl", "filtered")
        return [
            f"--mysql-server-port={self.port}", "--mysql-server-bind-address=127.0.0.1",
            "--mysql-auth-server-impl=none", f"--mysql-server-version={MYSQL_VERSION}-Vitess",
            f"--grpc-port={free_port()}", "--grpc-bind-address=127.0.0.1", f"--port={free_port()}",
            "--bind-address=127.0.0.1", "--service-map=grpc-vtgateservice,grpc-vtctl,grpc-vtctld",
            f"--json-topo={json.dumps(self._topology())}", "--db-charset=utf8mb4",
            *(f"--db-{user}-user=root" for user in users), f"--db-socket={self._mysql.socket}",
            "--mycnf-server-id=1", f"--mycnf-socket-file={self._mysql.socket}", "--dbddl-plugin=vttest",
            "--enable-online-ddl=true", "--enable-direct-ddl=true", "--vschema-ddl-authorized-users=%",
            "--allow-kill-statement",
            f"--schema-dir={self.directory / 'schema'}", f"--vschema-persistence-dir={self.directory / 'vschema'}",
            "--tablet-hostname=localhost",
        ]  # fmt: skip

    def _topology(self) -> Mapping[str, object]:
        main = {"name": "0", "dbNameOverride": f"vt_{DATABASE}"}
        sharded = [{"name": shard, "dbNameOverride": _database(shard)} for shard in self._shards]
        keyspaces = [{"name": SHARDED, "shards": sharded}, {"name": DATABASE, "shards": [main]}]
        return {"keyspaces": keyspaces, "cells": ["zone1"]}

    def prepare(self) -> None:
        """See MariaDb: there are no accounts, and the keyspaces are there."""

    def _answers(self) -> bool:
        """Whether the keyspaces answer: a vtgate accepts connections before its tablets serve."""
        assert self._process is not None
        assert self._process.poll() is None, f"Vitess ended; see {self.directory / 'log'}"
        return keyspaces_answer(self)

    def stop(self) -> None:
        """End both in order; the data stays. A vtcombo that is asked to end drains for long, so it is killed."""
        if self.runs:
            self.kill()
        self._mysql.stop()

    @property
    def process_ids(self) -> tuple[int, int]:
        """Those of vtgate, tablets and topology, and of the MySQL below."""
        assert self._process is not None
        return self._process.pid, int((self._mysql.directory / "pid").read_text())

    def kill_mysql(self) -> None:
        """kill -9 of the server below."""
        self._mysql.kill()

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        super().remove()
        self._mysql.remove()

    def engine_url(self, database: str = DATABASE) -> str:
        """See MariaDb: there are no accounts."""
        return self.url(database)

    def fresh_database(self, name: str) -> str:
        """A new keyspace, which is not sharded; returns its URL."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name}")
        return self.url(name)


def _database(shard: str) -> str:
    return f"vt_{SHARDED}_{shard.replace('-', '_')}"


def keyspaces_answer(server: MariaDb) -> bool:
    """Whether both keyspaces answer at a vtgate."""
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            for keyspace in (DATABASE, SHARDED):
                cursor.execute(f"USE {keyspace}")
                cursor.execute("SHOW TABLES")
    except pymysql.MySQLError:
        return False
    return True
