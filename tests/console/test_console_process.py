"""The console's process: its life beside the proxy, and clients that do not behave."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from console_browser import Browser, console_port, opened
from servers import ROOT, Gate, Sql, free_port, read_available, wait_until
from slowness import scaled

from console.bounded_http import CONNECTIONS_MAX, HEAD_SECONDS, OF_ADDRESS_MAX

pytestmark = pytest.mark.long


def consoles_of(gate):
    """The pids of its consoles."""
    assert gate.process is not None
    pids = Path(f"/proc/{gate.process.pid}/task/{gate.process.pid}/children").read_text().split()
    return [int(pid) for pid in pids if "console" in command_of(pid)]


def command_of(pid):
    """The words of its command line; none of a process that has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return []


def answers(port):
    try:
        return Browser(port).get("/login").status == 200
    except OSError:
        return False


def test_it_comes_back_when_it_is_killed(new_console, root, place):
    gate = new_console(**({} if place == "embedded" else {"workers": 2}))
    person = root(gate)
    (console,) = consoles_of(gate)
    os.kill(console, signal.SIGKILL)
    wait_until(lambda: [pid for pid in consoles_of(gate) if pid != console], 20, "another console")
    wait_until(lambda: answers(person.port), 20, "the console to answer on the same port")
    assert "the console died (SIGKILL); starting another" in gate.log
    assert person.get("/").location == "/login", "its sessions were in its memory"
    assert Sql(gate.connect()).value("SELECT 1") == 1


def test_a_signal_to_all_of_the_service_ends_no_session(new_console, root):
    """`systemctl kill -s HUP` sends it to the console, too."""
    gate = new_console()
    person = root(gate)
    (console,) = consoles_of(gate)
    os.kill(console, signal.SIGHUP)
    assert person.get("/").status == 200
    assert consoles_of(gate) == [console]
    handled = re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{console}/status").read_text())
    assert int(handled[1], 16) >> (signal.SIGHUP - 1) & 1


def test_a_start_that_fails_leaves_no_folder(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [
            sys.executable, "-m", "queuegate", "serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}",
            "--console", "127.0.0.1:0",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and b"in use" in done.stderr
    assert list(tmp_path.glob("queuegate-*")) == []


def test_it_ends_with_the_proxy(new_console, place):
    gate = new_console(**({} if place == "embedded" else {"workers": 2}))
    (console,) = consoles_of(gate)
    folder = Path(Path(f"/proc/{console}/cmdline").read_text().split("--metrics-url\0")[1].split("\0")[0]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    began = time.monotonic()
    assert gate.terminate() == 0
    assert time.monotonic() - began < scaled(8)
    assert not Path(f"/proc/{console}").exists()
    assert not folder.exists()


def test_it_ends_when_the_proxy_is_killed(new_console):
    gate = new_console()
    (console,) = consoles_of(gate)
    gate.kill()
    wait_until(lambda: not _runs(console), 20, "the console to end")


def _runs(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_counters_of_all_workers(new_console, root, place):
    if place == "embedded":
        pytest.skip("one process")
    gate = new_console(workers=2)
    person = root(gate)
    makers = [Sql(gate.connect()) for _ in range(8)]
    makers[0]("CREATE QUEUE q (payload INT)")
    wait_until(lambda: person.api("/queues").json["rates_known"], 20, "the counters to be read")
    for maker in makers:
        maker("INSERT INTO q (payload) VALUES (1)")

    def rate():
        return person.api("/queue/now", db=gate.database, name="q").json["per_minute"]["enqueued"]

    assert wait_until(rate, 20, "the rate") == 8


def test_a_port_that_is_taken(new_gate, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        gate = new_gate(console={"listen": f"127.0.0.1:{port}"})
        with pytest.raises(AssertionError, match="in use"):
            gate.start()
        gate.process = None
        command = [
            sys.executable, "-m", "queuegate", "serve", "--listen", f"127.0.0.1:{free_port()}",
            "--backend", f"sqlite:///{tmp_path}/other.db", "--console", f"127.0.0.1:{port}",
        ]  # fmt: skip
        log = tmp_path / "other.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                command, cwd=tmp_path, stderr=written, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
        try:
            wait_until(lambda: "connect with" in log.read_text(), 30, "the proxy to serve without a console")
        finally:
            process.terminate()
            assert process.wait(30) == 0
        said = log.read_text()
        assert "there is no console" in said and "in use" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--listen", "0.0.0.0:0"], "passwords would go there in clear text"),
        (["--listen", "x"], "is not an address"),
        (["--certificate", "/nowhere.pem"], "No such file"),
        (["--key", "/nowhere.pem"], "without console.certificate"),
        (["--public-url", "queues.example.com/x"], "is not an address for browsers"),
        (["--metrics-url", "http://db1:93o7/counters"], "--metrics-url http://db1:93o7/counters: nonnumeric port"),
    ],
)
def test_mistakes_on_the_command_line(arguments, complaint, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "console", *arguments], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and complaint in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def console_apart(tmp_path):
    """A console by itself, a client of a proxy."""
    with contextlib.ExitStack() as started:

        def start(gate):
            port = free_port()
            command = [
                sys.executable, "-m", "queuegate", "console", "--port", str(gate.port), "--listen", f"127.0.0.1:{port}",
                "--defaults-file", "/dev/null",
            ]  # fmt: skip
            log = started.enter_context((tmp_path / "console.log").open("wb"))
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )

            def end():
                process.terminate()
                assert process.wait(20) == 0

            started.callback(end)
            wait_until(lambda: answers(port), 30, "the console to answer")
            return Browser(port)

        yield start


def test_a_session_outlives_a_restart_of_the_proxy(new_gate, console_apart):
    gate = new_gate()
    gate.start()
    maker = Sql(gate.connect())
    maker("CREATE QUEUE q (payload INT)")
    maker.close()
    person = console_apart(gate)
    assert person.log_in().status == 303
    where = {"db": gate.database, "name": "q"}
    assert person.get("/queue", **where).status == 200
    gate.terminate()
    away = person.get("/queue", **where)
    assert away.status == 503 and "does not answer" in away.text
    gate.start()
    assert person.get("/queue", **where).status == 200
    gate.terminate()
    gate.start()
    assert person.post("/queue/pause", **where).status == 303, "a lost line is found before a change is sent"


@pytest.fixture
def port(console, browser):
    return browser(console()).port


MALFORMED = [
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\nx",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
    os.urandom(2000),
]


@pytest.mark.parametrize("said", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_request(port, said):
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        with contextlib.suppress(OSError):
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
        answer = read_available(client, 5)
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert b" 500 " not in answer.split(b"\r\n")[0]
    assert answers(port)


def test_slow_clients_are_cut_off(port):
    """One that says nothing, one that trickles its head, one that trickles after an answer, one with a slow body."""
    clients = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(4)]
    clients[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    clients[2].sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
    clients[3].sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
                       b"Content-Type: application/x-www-form-urlencoded\r\n\r\na")  # fmt: skip
    assert b"200 OK" in clients[2].recv(65536)
    stopped = threading.Event()

    def trickle():
        while not stopped.wait(0.5):
            for client, piece in zip(clients[1:], (b"X: y\r\n", b"G", b"a"), strict=True):
                with contextlib.suppress(OSError):
                    client.send(piece[:1] if client is not clients[1] else piece)

    writer = threading.Thread(target=trickle, daemon=True)
    writer.start()
    try:
        began = time.monotonic()
        for client in clients:
            client.settimeout(HEAD_SECONDS + 25)
            with contextlib.suppress(ConnectionError):
                while client.recv(65536):
                    pass
        assert time.monotonic() - began < scaled(HEAD_SECONDS + 20)
    finally:
        stopped.set()
        writer.join(10)
        for client in clients:
            client.close()
    assert answers(port)


def test_hundreds_of_silent_connections_keep_nobody_out(port):
    assert CONNECTIONS_MAX > OF_ADDRESS_MAX
    silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(OF_ADDRESS_MAX * 2)]
    try:
        for _ in range(5):
            assert answers(port)
        closed = 0
        for client in silent:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                try:
                    closed += client.recv(1) == b""
                except ConnectionResetError:
                    closed += 1
        assert closed >= OF_ADDRESS_MAX - 5
    finally:
        for client in silent:
            client.close()


BODY = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\na="
)
UNREAD = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40


@pytest.mark.parametrize("said", [BODY, UNREAD, UNREAD[:43]], ids=["bodies", "unread", "resting"])
def test_strangers_that_talk_keep_nobody_out_either(new_console, root, said):
    """Neither who is logged in, nor who comes to log in."""
    gate = new_console()
    person = root(gate)
    strangers = []
    try:
        for _ in range(OF_ADDRESS_MAX + 20):
            with contextlib.suppress(OSError):
                client = socket.create_connection(("127.0.0.1", person.port), 10)
                strangers.append(client)
                client.sendall(said)
        for _ in range(3):
            assert answers(person.port)
            assert person.get("/").status == 200
        assert root(gate).get("/").status == 200
    finally:
        for client in strangers:
            client.close()
    assert "Traceback" not in gate.log


def test_a_strangers_body_is_small_and_quick(port):
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.sendall(BODY.replace(b"1000", b"100000"))
        assert b" 413 " in client.recv(65536).split(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.sendall(BODY)
        client.settimeout(30)
        assert b" 408 " in client.recv(65536).split(b"\r\n")[0]
    assert answers(port)


def test_strangers_do_not_fill_the_log(new_console, root):
    """A hang-up in the middle of a body is no defect; refused logins are counted."""
    gate = new_console()
    person = root(gate)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", person.port), 10) as client:
            client.sendall(BODY)
    refused = Browser(person.port)
    for number in range(8):
        refused.log_in(f"nobody{number}", "x")
    assert answers(person.port)
    assert gate.log.count("login refused") == 1
    assert "Traceback" not in gate.log and "a page failed" not in gate.log


@pytest.mark.timeout(600)
def test_a_database_that_is_gone_is_named_and_not_the_proxy(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path, console={"listen": "127.0.0.1:0"})
    opened(gate.start())
    try:
        person = Browser(console_port(gate))
        assert person.log_in().status == 303
        own_mariadb.kill()
        shown = person.get("/")
        assert shown.status == 503
        assert "The database does not answer" in shown.text and "The proxy does not answer" not in shown.text
        refused = person.post("/queue/pause", db=gate.database, name="q")
        assert refused.status == 503 and "The database does not answer" in refused.text
        stranger = Browser(person.port).log_in()
        assert stranger.status == 503 and "cannot reach its database" in stranger.text
    finally:
        gate.stop()
