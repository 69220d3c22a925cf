"""How many modules a statement passes between its client's bytes and the answer's: `python -m benchmarks.call_path`.

The proxy runs in this process under sys.setprofile. A client in a thread sends each statement several times; the
modules of the four packages that run between its sending and its answer are counted, and the smallest count holds:
what a timer does in between is not the statement's.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pymysql
from servers import DATABASE, MariaDb

from proxy.config import load
from queuegate import app

ROOT = Path(__file__).resolve().parent.parent
TIMES = 30
PACKAGES = tuple(str(ROOT / package) + "/" for package in ("proxy", "rewriter", "engine"))


class Recorder:
    """The modules that ran while it was on, in any thread."""

    def __init__(self) -> None:
        self._seen: set[str] | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        seen = self._seen
        if seen is not None and event == "call":
            seen.add(frame.f_code.co_filename)

    def during(self, work: Callable[[], object]) -> set[str]:
        """The project's modules that ran meanwhile."""
        self._seen = seen = set()
        try:
            work()
        finally:
            self._seen = None
        return {name.removeprefix(f"{ROOT}/") for name in seen if name.startswith(PACKAGES)}


def measure(recorder: Recorder, port: int, database: str) -> dict[str, set[str]]:
    """The modules of an ordinary SELECT and of an ACK."""
    options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "root", "database": database}
    with pymysql.connect(autocommit=True, **options) as client, client.cursor() as cursor:
        cursor.execute("CREATE TABLE ordinary (id INT PRIMARY KEY)")
        cursor.execute("CREATE QUEUE waiting (n INT)")
        cursor.execute("INSERT INTO waiting (n) VALUES " + ", ".join(f"({n})" for n in range(TIMES)))
        ids = iter(range(1, TIMES + 1))
        statements: dict[str, Callable[[], object]] = {
            "SELECT": lambda: cursor.execute("SELECT id FROM ordinary WHERE id = 5"),
            "ACK": lambda: cursor.execute(f"ACK waiting {next(ids)}"),
        }
        found = {name: min((recorder.during(run) for _ in range(TIMES)), key=len) for name, run in statements.items()}
        cursor.execute("DROP QUEUE waiting")
        cursor.execute("DROP TABLE ordinary")
    return found


def passed(url: str, database: str) -> dict[str, set[str]]:
    """Start a proxy before this database, measure, and end it."""
    users = [{"name": "root", "password": ""}] if url.startswith("sqlite") else []
    config = load(flags={"listen": "127.0.0.1:0", "backend": url, "users": users})
    recorder, result, failure = Recorder(), dict[str, set[str]](), list[BaseException]()

    def ready(running: app.RunningProxy) -> None:
        loop = asyncio.get_running_loop()

        def client() -> None:
            try:
                result.update(measure(recorder, running.address.port, database))
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


def main() -> int:
    """Prints the counts and the modules of each statement on each backend."""
    server = MariaDb()
    server.install()
    server.start()
    try:
        server.prepare()
        with tempfile.TemporaryDirectory() as folder:
            backends = {
                "MariaDB": passed(server.url(), DATABASE),
                "embedded": passed(f"sqlite:///{folder}/path.db", "main"),
            }
    finally:
        server.remove()
    for backend, found in backends.items():
        for statement, modules in found.items():
            print(f"{statement} on {backend}: {len(modules)} modules")
            print("  " + " ".join(sorted(modules)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
