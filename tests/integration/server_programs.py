"""The programs that come with a MariaDB server, run against a server or a gate."""

from __future__ import annotations

import subprocess

from servers import Gate, MariaDb, find_binary

TIMEOUT = 100  # seconds that a program may take; less than a test has


def run(program: str, server: Gate | MariaDb, *arguments: str, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end."""
    binary = find_binary(program)
    assert binary is not None, f"{program} is missing; Debian: mariadb-client"
    return subprocess.run(
        [binary, "--no-defaults", "--protocol=tcp", "-h127.0.0.1", f"-P{server.port}", "-uroot", *arguments],
        input=feed, capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


def ran(program: str, server: Gate | MariaDb, *arguments: str, feed: bytes = b"") -> str:
    """What it printed; it has to end well and without a word of complaint."""
    done = run(program, server, *arguments, feed=feed)
    assert (done.returncode, done.stderr) == (0, b""), (done.returncode, done.stderr.decode(), done.stdout[-2000:])
    return done.stdout.decode(errors="surrogateescape")
