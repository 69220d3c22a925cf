"""Through which functions five things go, from a client's bytes to the answer's: `python -m benchmarks.call_path`.

Prints docs/call-paths.md: for an ordinary SELECT, an INSERT into a queue, a stream's row and an ACK before a MariaDB,
and for a SELECT on the embedded backend, the modules that are entered, in order, each with one function and what its
docstring says that it does. `tests/benchmarks/test_call_path.py` compares.

The proxy runs in this process under sys.setprofile, and a client in a thread does each thing many times. A path ends
with the callback of the event loop that writes to the client. The path that comes most often is the one: what a timer
does in between is not the statement's, and how fast the machine is does not matter.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pymysql
from pymysql.cursors import SSCursor
from servers import MariaDb

from proxy.config import load
from queuegate import app

ROOT = Path(__file__).resolve().parent.parent
TIMES = 40
"""How often each thing is done."""

TIMES_MAX = 400
"""The same where other things run beside it, so that hardly two of its paths are alike."""

ALIKE = 10
"""Of so many equal paths, and half as many of any other, the path is known."""

PACKAGES = tuple(f"{ROOT / package}/" for package in ("proxy", "embedded", "rewriter", "mysql_wire", "engine"))
HEAD = """# Call paths

For: engineers of queuegate.

Five ways through the code, as they are run: one line for each module that is entered, in order, with the function by
which it is entered, and what that does, or the module. The [rooms](architecture.md#the-rooms) have the order of the
layers. `python -m benchmarks.call_path --write` writes this page.
"""
WRITTEN = "Here the answer is written to the client. In the same turn of the loop:"


class Call(NamedTuple):
    """A function of the project."""

    file: str
    name: str


class CallPath(NamedTuple):
    """What is called for one answer; `written`: how many of the calls are before its last bytes are written."""

    calls: tuple[Call, ...]
    written: int

    def since(self, folder: str) -> CallPath:
        """The path from the first call in this folder on."""
        begin = next(number for number, call in enumerate(self.calls) if call.file.startswith(folder))
        return CallPath(self.calls[begin:], self.written - begin)


class Recorder:
    """The functions that are called while it is on, in any thread, up to the last write to the client."""

    def __init__(self) -> None:
        self._calls: list[Call] | None = None
        self._client_port = 0
        self._callback_ended = True
        self._written = self._end = 0
        """How many calls there were at the last write, and when its callback ended."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        calls, code = self._calls, frame.f_code
        if calls is None or event != "call":
            return
        if code.co_filename.startswith(PACKAGES):
            calls.append(Call(code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname))
        elif code.co_qualname == "Handle._run":
            if not self._callback_ended:
                self._callback_ended, self._end = True, len(calls)
        elif code.co_qualname in ("_SelectorSocketTransport.write", "_SelectorSocketTransport.writelines"):
            peer = frame.f_locals["self"].get_extra_info("peername")
            if peer and peer[1] == self._client_port:
                self._callback_ended, self._written = False, len(calls)

    def during(self, work: Callable[[], object], client_port: int, loop: asyncio.AbstractEventLoop) -> CallPath:
        """What is called until the client of this port has its answer."""
        self._client_port, self._callback_ended, self._written, self._end = client_port, True, 0, 0
        self._calls = calls = []
        try:
            work()
            for _ in range(2):  # the callback that has written has ended when another one has begun
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        finally:
            self._calls = None
        return CallPath(tuple(calls[: self._end]), self._written)


def measure(recorder: Recorder, port: int, database: str, loop: asyncio.AbstractEventLoop) -> dict[str, CallPath]:
    """The paths on one backend."""
    options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "root", "database": database}

    def most_often(work: Callable[[], object], client: Any) -> CallPath:
        local_port = client._sock.getsockname()[1]
        paths = Counter[CallPath]()
        for times in range(TIMES_MAX):
            paths[recorder.during(work, local_port, loop)] += 1
            often = [count for _, count in paths.most_common(2)]
            if times >= TIMES - 1 and often[0] >= max(ALIKE, 2 * sum(often[1:])):
                break
        return paths.most_common(1)[0][0]

    with pymysql.connect(autocommit=True, **options) as client, client.cursor() as cursor:
        cursor.execute("CREATE TABLE ordinary (id INT PRIMARY KEY)")
        for queue in ("acked", "added", "streamed"):
            cursor.execute(f"CREATE QUEUE {queue} (n INT)")
        cursor.execute("INSERT INTO acked (n) VALUES " + ", ".join(f"({n})" for n in range(TIMES_MAX)))
        ids = iter(range(1, TIMES_MAX + 1))
        found = {
            "SELECT": most_often(lambda: cursor.execute("SELECT id FROM ordinary WHERE id = 5"), client),
            "INSERT": most_often(lambda: cursor.execute("INSERT INTO added (n) VALUES (5)"), client),
            "ACK": most_often(lambda: cursor.execute(f"ACK acked {next(ids)}"), client),
        }
        receiver = pymysql.connect(autocommit=True, cursorclass=SSCursor, **options)
        rows = receiver.cursor()
        rows.execute("SELECT n FROM STREAM streamed")

        def row() -> None:
            cursor.execute("INSERT INTO streamed (n) VALUES (5)")
            assert rows.fetchone() == (5,)

        found["row"] = most_often(row, receiver).since("engine/delivery/")
        rows._result.unbuffered_active = False
        receiver._force_close()
        for queue in ("acked", "added", "streamed"):
            cursor.execute(f"DROP QUEUE {queue}")
        cursor.execute("DROP TABLE ordinary")
    return found


def passed(url: str, database: str) -> dict[str, CallPath]:
    """Start a proxy before this database, measure, and end it."""
    users = [{"name": "root", "password": ""}] if url.startswith("sqlite") else []
    config = load(flags={"listen": "127.0.0.1:0", "backend": url, "users": users})
    recorder, result, failure = Recorder(), dict[str, CallPath](), list[BaseException]()

    def ready(running: app.RunningProxy) -> None:
        loop = asyncio.get_running_loop()

        def client() -> None:
            try:
                result.update(measure(recorder, running.address.port, database, loop))
            except BaseException as error:
                failure.append(error)
            loop.call_soon_threadsafe(running.stop)

        threading.Thread(target=client).start()

    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        asyncio.run(app.serve(config, ready=ready))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if failure:
        raise failure[0]
    return result


# --- the page


@cache
def _docstrings(file: str) -> dict[str, str]:
    """The first sentences of a module's docstrings, by qualified name; the module's own by ""."""
    found: dict[str, str] = {}

    def read(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        text = " ".join((ast.get_docstring(node) or "").split())
        found[name] = text.partition(". ")[0].removesuffix(".").partition(": `python")[0]
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                read(child, f"{name}.{child.name}" if name else child.name)

    read(ast.parse((ROOT / file).read_text()), "")
    return found


def _line(call: Call) -> str:
    docstrings = _docstrings(call.file)
    module = call.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    clause = docstrings.get(call.name, "")
    if not clause or clause.startswith("See "):
        clause = docstrings[""].partition(": ")[2] or docstrings[""]
    if clause[1:2].islower() or clause[1:2] == " ":
        clause = clause[0].lower() + clause[1:]
    return f"1. `{module}`, `{call.name}`: {clause}."


def section(title: str, path: CallPath) -> str:
    """One way: the first call of each module."""
    first: dict[str, int] = {}
    for number, call in enumerate(path.calls):
        first.setdefault(call.file, number)
    before = [_line(path.calls[number]) for number in first.values() if number < path.written]
    behind = [_line(path.calls[number]) for number in first.values() if number >= path.written]
    rest = [WRITTEN, "", *behind, ""] if behind else []
    return "\n".join((f"\n## {title}", "", f"{len(before)} modules.", "", *before, "", *rest))


def page(server: str, folder: Path) -> str:
    """All of docs/call-paths.md; `server`: the URL of a database that is there."""
    on_server = passed(server, server.rpartition("/")[2])
    embedded = passed(f"sqlite:///{folder}/path.db", "main")
    return HEAD + "".join(
        (
            section("A SELECT that is passed on", on_server["SELECT"]),
            section("An INSERT into a queue", on_server["INSERT"]),
            section("A stream's row, from the commit", on_server["row"]),
            section("An ACK", on_server["ACK"]),
            section("A SELECT on the embedded backend", embedded["SELECT"]),
        )
    )


@contextmanager
def _server() -> Iterator[str]:
    server = MariaDb()
    server.install()
    server.start()
    try:
        server.prepare()
        yield server.url()
    finally:
        server.remove()


def main() -> int:
    """Prints the page, or writes it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/call-paths.md, instead of printing it")
    parser.add_argument("--server", help="the URL of an empty database on a MariaDB, instead of one of its own")
    given = parser.parse_args()
    with nullcontext(given.server) if given.server else _server() as server, tempfile.TemporaryDirectory() as folder:
        text = page(server, Path(folder))
    if given.write:
        (ROOT / "docs/call-paths.md").write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
