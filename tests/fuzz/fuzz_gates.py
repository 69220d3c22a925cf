"""Gates that are processes, for the parts of the fuzzer that go over sockets; and that work shared out to processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha1
from pathlib import Path

import fuzz_paths  # noqa: F401
from servers import Gate, MariaDb

BACKENDS = ("embedded", "mariadb")
USERS = (
    {"name": "root", "password": ""},
    {"name": "app", "password": "secret"},
    {"name": "old", "password_hash": "*" + sha1(sha1(b"geheim").digest()).hexdigest().upper()},
)

Work = Callable[[str, int, range], bool]
"""A backend, a seed, and numbers of inputs; whether all went well."""


@contextlib.contextmanager
def gates(backends: tuple[str, ...] = BACKENDS) -> Iterator[dict[str, Gate]]:
    """A running gate on each backend, with the same accounts."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        urls = {"embedded": f"sqlite:///{folder}/queue.db"}
        if "mariadb" in backends:
            mariadb = MariaDb()
            stack.callback(mariadb.remove)
            mariadb.install()
            mariadb.start()
            mariadb.prepare()
            with mariadb.connect() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
                cursor.execute("GRANT ALL ON main.* TO app@'127.0.0.1'")
            urls["mariadb"] = mariadb.url()
        found = {}
        for name in backends:
            directory = Path(folder) / name
            directory.mkdir()
            users = {"users": list(USERS)} if name == "embedded" else {}
            found[name] = Gate(urls[name], directory, limits={"login_failures": 0}, **users).start()
            stack.callback(found[name].stop)
        yield found


def share_out(work: Work, seed: int, count: int, backends: tuple[str, ...], jobs: int) -> bool:
    """The numbers below `count` for each backend, in as many processes at a time, each with a gate of its own."""
    slices = max(1, jobs // len(backends))
    size = -(-count // slices)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = [
            pool.submit(work, backend, seed, range(start, min(start + size, count)))
            for start in range(0, count, size)
            for backend in backends
        ]
        return all(one.result() for one in running)
