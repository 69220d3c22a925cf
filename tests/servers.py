"""Real processes for the black-box suites: a private MariaDB, a queuegate, and clients of it.

Nothing here sleeps and hopes: `wait_until` polls a condition under a deadline and says what it waited for.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import preloaded
import pymysql
import scratch
import yaml
from pymysql.cursors import SSCursor
from slowness import Deadline, scaled

T = TypeVar("T")
Server = TypeVar("Server", bound="MariaDb")
ROOT = Path(__file__).resolve().parent.parent
os.environ.pop("QUEUEGATE_BACKEND", None)  # a proxy under test serves no database of whoever runs the tests
SERVER = os.environ.get("QUEUEGATE_TEST_SERVER", "mariadb")
"""What stands where else MariaDB does: `mysql`, `mariadb-next` or `galera`, in the targets of make called so."""
NUMBERED = SERVER == "galera"
"""Whether CREATE TOPIC gives a topic the option `sequence` by itself."""

DATABASE = "main"  # the embedded backend's only database; the servers under test have one of the same name
NS = 1_000_000_000
_LOG_SIZE = "--innodb-log-file-size=64M"


def wait_until(predicate: Callable[[], T], timeout: float = 20.0, what: str = "the condition") -> T:
    """The first true value of `predicate`, asked again and again for at most `timeout` seconds of a machine at rest.

    Most ask a server. So the pauses grow with the time waited, by a twentieth of it: a long wait costs little
    processor time, and a short one ends at once.
    """
    began, deadline = time.monotonic(), Deadline(timeout)
    while not (value := predicate()):
        waited = time.monotonic() - began
        if deadline.passed(waited):
            raise AssertionError(f"waited {deadline.told} in vain for {what}")
        time.sleep(min(max(waited / 20, 0.005), 0.05))
    return value


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses, and that the kernel gives to no other socket.

    It lies below the ports that the kernel chooses from (Linux: 32768 and up). A server that stops and starts on
    the same port would otherwise find it taken at times, by the client's end of some other test's connection.
    """
    for port in random.SystemRandom().sample(range(10_000, 32_768), 200):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no free port among 200 of 127.0.0.1")


def numbers(count: int) -> str:
    """A table for FROM: its column seq counts from 1. MariaDB has such tables; MySQL reads them from a JSON text."""
    if SERVER not in ("mysql", "vitess"):
        return f"seq_1_to_{count}"
    text = f"CONCAT('[0', REPEAT(',0', {count - 1}), ']')"
    return f"JSON_TABLE({text}, '$[*]' COLUMNS (seq FOR ORDINALITY)) AS numbers"


def find_binary(name: str) -> str | None:
    """Where a program is; Debian keeps servers in /usr/sbin, which is not on every user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


_context_of_options = pymysql.Connection._create_ssl_ctx


@cache
def _unverifying() -> ssl.SSLContext:
    """What PyMySQL makes of no options: TLS where it is offered, with whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _context(connection: pymysql.Connection[Any], options: Any) -> ssl.SSLContext:
    return _context_of_options(connection, options) if options else _unverifying()


# For each connection without options PyMySQL reads all of the system's certificates, 20 ms of processor time, and then
# verifies nothing. The tests connect some ten thousand times.
pymysql.Connection._create_ssl_ctx = _context  # type: ignore[method-assign]


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


@cache
def _system_tables() -> Path:
    """A MariaDB's data directory before its first start. Each server of this process gets a copy: to make it takes
    five times as long as to copy it."""
    program = find_binary("mariadb-install-db")
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="qg-db-", dir=scratch.folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "tmp").mkdir()
    subprocess.run(
        [program, "--no-defaults", f"--datadir={folder / 'data'}", *_as_root(), "--skip-test-db",
         "--auth-root-authentication-method=normal", f"--tmpdir={folder / 'tmp'}", _LOG_SIZE],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return folder / "data"


class MariaDb:
    """A private MariaDB server on a free port with its own data directory; durable as in production."""

    def __init__(self, options: Sequence[str] = (), folder: Path | None = None) -> None:
        self.options = options  # further ones of mariadbd's command line
        # Short: the path of a socket may have 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="qg-db-", dir=folder or scratch.folder()))
        self.port = free_port()
        self.socket = self.directory / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        """Make the system tables and, by the first start, our account and database."""
        shutil.copytree(_system_tables(), self.directory / "data")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*self._command(), *self.options], stdout=log, stderr=log)
        wait_until(self._answers, 60, f"the server to start; see {self.directory / 'log'}")

    def _command(self) -> list[str]:
        program = find_binary("mariadbd")
        assert program is not None
        return [program, "--no-defaults", *self._everywhere()]

    def _everywhere(self) -> list[str]:
        """What MariaDB and MySQL are started with alike."""
        return [
            f"--datadir={self.directory / 'data'}", f"--socket={self.socket}", f"--tmpdir={self._temporary()}",
            f"--port={self.port}", "--bind-address=127.0.0.1", f"--pid-file={self.directory / 'pid'}",
            "--skip-log-bin", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1", *self._user(),
            "--max-connections=2000",
            "--innodb-buffer-pool-size=128M", _LOG_SIZE, "--performance-schema=OFF",
            "--local-infile=ON", "--max-allowed-packet=128M",
        ]  # fmt: skip

    def prepare(self) -> None:
        """Accounts and the database that every test uses."""
        connection = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
            for host in ("127.0.0.1", "localhost"):
                cursor.execute(f"CREATE USER IF NOT EXISTS root@'{host}'")
                cursor.execute(f"GRANT ALL ON *.* TO root@'{host}' WITH GRANT OPTION")

    @property
    def runs(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._process is not None

    def stop(self) -> None:
        """End the server in order; the data stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def _temporary(self) -> Path:
        """Its own: a server that starts, to make the system tables too, deletes what looks like an old one's tables."""
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        return temporary

    def kill(self) -> None:
        """End the server as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)
        self._process = None

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = DATABASE) -> str:
        """The backend URL of a database of this server."""
        return f"mysql://root@127.0.0.1:{self.port}/{database}"

    def engine_url(self, database: str = DATABASE) -> str:
        """The same, by an account for the engine that has the rights which docs/security.md gives it, on it alone."""
        account = f"engine_{database}"
        with self.connect() as connection, connection.cursor() as cursor:
            for host in ("127.0.0.1", "localhost"):
                cursor.execute(f"CREATE USER IF NOT EXISTS {account}@'{host}'")
                cursor.execute(f"GRANT {engine_rights()} ON {database}.* TO {account}@'{host}'")
                cursor.execute(f"GRANT PROCESS ON *.* TO {account}@'{host}'")
        return self.url(database).replace("//root@", f"//{account}@")

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A connection of our own, around the proxy."""
        return pymysql.connect(
            **{"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True, **options}
        )

    def fresh_database(self, name: str) -> str:
        """An empty database; returns its URL."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return self.url(name)

    def _user(self) -> list[str]:
        return _as_root()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended; see {self.directory / 'log'}"
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0


def engine_rights() -> str:
    """What docs/security.md says that an account for the engine needs, as GRANT lists it."""
    text = (Path(__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    found = re.search(r"^GRANT ([A-Z, ]+) ON main\.\* TO engine@", text, re.MULTILINE)
    assert found is not None, "docs/security.md has no GRANT for the engine"
    return found[1]


def topic_options(given: str) -> str:
    """The options of a topic as SHOW TOPICS has them, where WITH gave these."""
    return ", ".join([text for text in (given, "sequence = on" if NUMBERED else "") if text])


@contextlib.contextmanager
def private(server: Server) -> Iterator[Server]:
    """A server that is made for this, with its account and database, and removed in the end."""
    try:
        server.install()
        server.start()
        server.prepare()
        yield server
    finally:
        server.remove()


class Gate:
    """A queuegate process. Configured by a file, observed by its log, its port and the kernel."""

    launch = staticmethod(preloaded.start)
    """How a process is started; pytest has them forked from one that has loaded everything."""

    _made: ClassVar[WeakSet[Gate]] = WeakSet()

    def __init__(self, backend: str, directory: Path, *, database: str = DATABASE, **config: Any) -> None:
        self.backend = backend
        self.database = database
        self.directory = directory
        self.port = config.pop("port", None) or free_port()
        self.config: dict[str, Any] = config
        if not self.embedded:
            config.setdefault("workers", int(os.environ.get("QUEUEGATE_TEST_WORKERS", "1")))
        self.log_file = directory / "log"
        self.process: preloaded.Process | None = None
        self._made.add(self)

    def __repr__(self) -> str:
        return f"<Gate {self.port} {self.backend}>"

    @classmethod
    def running(cls) -> list[Gate]:
        """Those that this process has started and not ended."""
        return [gate for gate in cls._made if gate.process is not None]

    @property
    def embedded(self) -> bool:
        return self.backend.startswith("sqlite")

    def start(self, environment: Mapping[str, str] | None = None) -> Gate:
        """Start the process and wait until it listens, each time on the same port."""
        file = self.directory / "config.yaml"
        file.write_text(yaml.safe_dump({"listen": f"127.0.0.1:{self.port}", "backend": self.backend, **self.config}))
        logged = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self.process = self.launch(["serve", "--config", str(file)], log, {**os.environ, **(environment or {})})
        self.port = int(wait_until(lambda: self._listening(logged), 60, "queuegate to listen"))
        return self

    def _listening(self, offset: int) -> str | None:
        process = self.process  # another thread may be ending it
        text = self.log_file.read_text()[offset:]
        assert process is not None, f"queuegate was ended:\n{text}"
        assert process.poll() is None, f"queuegate ended with {process.returncode}:\n{text}"
        match = re.search(r"listening on 127\.0\.0\.1:(\d+)", text)
        return match[1] if match else None

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def kill(self) -> None:
        """kill -9: no warning, no cleaning up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)
        self.process = None

    def terminate(self, timeout: float = 30) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(scaled(timeout))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise AssertionError(f"queuegate did not end within {timeout} s of SIGTERM:\n{self.log[-4000:]}") from None

    def stop(self) -> None:
        """The end of a test: in order where it still runs, and without a traceback in its log."""
        if self.process is not None:
            assert self.terminate() == 0, self.log[-4000:]
        assert "Traceback" not in self.log, self.log[-8000:]

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A PyMySQL client, logged in as root, autocommit on."""
        return pymysql.connect(
            **{"host": "127.0.0.1", "port": self.port, "user": "root", "database": self.database, "autocommit": True,
               "connect_timeout": 20, "read_timeout": 60, **options}
        )  # fmt: skip

    def raw(self, timeout: float = 10) -> socket.socket:
        """A bare TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def rss_bytes(self) -> int:
        """Resident memory of the process, as the kernel counts it."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024


class Stream:
    """A receiver: a SELECT ... FROM STREAM on a connection and a thread of its own."""

    def __init__(self, gate: Gate, sql: str, **options: Any) -> None:
        self.connection = gate.connect(cursorclass=SSCursor, read_timeout=None, **options)
        self.id = self.connection.thread_id()
        self.rows: list[tuple[Any, ...]] = []
        self.times: list[float] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._closing = False
        self._cursor = self.connection.cursor()
        self._cursor.execute(sql)  # returns as soon as the column list is there
        self.columns = [column[0] for column in self._cursor.description or ()]
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while (row := self._cursor.fetchone()) is not None:
                with self._changed:
                    self.rows.append(row)
                    self.times.append(time.time())
                    self._changed.notify_all()
        except Exception as error:
            self.error = None if self._closing else error
        finally:
            self.ended.set()
            with self._changed:
                self._changed.notify_all()

    def wait(self, count: int, timeout: float = 20.0) -> list[tuple[Any, ...]]:
        """The rows so far, once there are at least `count`."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self.rows) >= count or self.ended.is_set(), scaled(timeout))
            if len(self.rows) < count:
                state = f"ended ({self.error!r})" if done else "still open"
                raise AssertionError(f"{len(self.rows)} of {count} messages after {timeout} s; stream {state}")
            return list(self.rows)

    def more(self, taken: int, timeout: float | None = None) -> list[tuple[Any, ...]]:
        """The rows after the first `taken`, as soon as there are any; none once the stream has ended, or after that
        time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.rows) > taken or self.ended.is_set(), timeout)
            return self.rows[taken:]

    def wait_end(self, timeout: float = 20.0) -> BaseException | None:
        """The error the stream ended with, None where it ended well."""
        assert self.ended.wait(scaled(timeout)), f"the stream is still open after {timeout} s"
        return self.error

    def ids(self) -> list[Any]:
        """The first column of every row so far."""
        return [row[0] for row in list(self.rows)]

    def close(self) -> None:
        """Hang up, as a receiver that dies does: PyMySQL would read an endless result to its end."""
        self._closing = True
        hang_up(self.connection)
        self._thread.join(10)
        if self._cursor._result is not None:
            self._cursor._result.unbuffered_active = False
        self.connection._force_close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def login_errno(gate: Gate, **options: Any) -> int:
    """The error that a login is refused with; 0 where it is not."""
    try:
        gate.connect(**options).close()
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


def hang_up(connection: pymysql.Connection[Any]) -> None:
    """Shut a client's socket without a word to the server."""
    try:
        connection._sock.shutdown(socket.SHUT_RDWR)
    except (OSError, AttributeError):
        pass  # gone already


@dataclass
class Sql:
    """A client for assertions: one connection, the answer of each statement as plain values."""

    connection: pymysql.Connection[Any]

    def __call__(self, sql: str, *params: Any) -> int:
        """Run a statement; returns the affected rows."""
        with self.connection.cursor() as cursor:
            return int(cursor.execute(sql, params or None))

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            return list(cursor.fetchall())

    def named(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """The rows by the names of their columns, in lower case."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            names = [column[0].lower() for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str, *params: Any) -> tuple[Any, ...]:
        rows = self.rows(sql, *params)
        assert len(rows) == 1, rows
        return rows[0]

    def value(self, sql: str, *params: Any) -> Any:
        return self.row(sql, *params)[0]

    def column(self, sql: str, *params: Any) -> list[Any]:
        return [row[0] for row in self.rows(sql, *params)]

    def error(self, sql: str, *params: Any) -> tuple[int, str]:
        """The error number and text that the statement is refused with."""
        try:
            self(sql, *params)
        except pymysql.err.MySQLError as error:
            return int(error.args[0]), str(error.args[1])
        raise AssertionError(f"was not refused: {sql}")

    def insert_id(self, sql: str, *params: Any) -> int:
        """Run an INSERT; returns the insert id its OK packet carried."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            return int(cursor.lastrowid)

    def close(self) -> None:
        self.connection.close()


def run_cli(
    gate: Gate, sql: str, *arguments: str, program: str = "mysql", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Feed statements to the command-line client."""
    binary = find_binary(program) or find_binary("mariadb")
    assert binary is not None, "no mysql or mariadb command-line client"
    return subprocess.run(
        [binary, "--no-defaults", "-h127.0.0.1", f"-P{gate.port}", "-uroot", *arguments, gate.database],
        input=sql, text=True, capture_output=True, timeout=scaled(timeout), check=False,
    )  # fmt: skip


def read_available(sock: socket.socket, timeout: float = 5.0) -> bytes:
    """Everything the peer sends until it closes or is silent for `timeout` seconds."""
    data = b""
    while select.select([sock], [], [], timeout)[0]:
        try:
            chunk = sock.recv(65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    return data


def in_threads(work: Callable[..., T], arguments: Iterable[Sequence[Any]], timeout: float = 100) -> list[T]:
    """Run `work` once for each argument list at the same time; the results in order, the first error raised."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(index: int, given: Sequence[Any]) -> None:
        try:
            results[index] = work(*given)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i, given), daemon=True) for i, given in enumerate(arguments)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + scaled(timeout)
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    assert len(results) == len(threads), f"{len(threads) - len(results)} threads still run after {timeout} s"
    return [results[i] for i in range(len(threads))]
