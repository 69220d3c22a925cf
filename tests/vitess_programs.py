"""Vitess 24's programs and etcd, built by Go from their own modules, which its checksum database verifies.

The first takes some minutes, and the others, which are made of the same packages, less.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from servers import find_binary
from toolchains import cache, kept_as, missing

VITESS = "0.24.4"
"""Vitess 24.0.4, as its Go module is numbered."""

_ETCD = "3.5.17"
_BUILD_SECONDS = 2400  # eleven hundred packages
_NOBODY = 65534  # Vitess's programs refuse to run as root


def vitess_program(name: str) -> Path:
    """One of Vitess's programs. Missing: a skip at a desk, a failure in CI."""
    return _built(name, f"vitess.io/vitess/go/cmd/{name}", VITESS)


def etcd() -> Path:
    """The topology server of a Vitess. Missing: a skip at a desk, a failure in CI."""
    return _built("etcd", "go.etcd.io/etcd/server/v3", _ETCD)


def unprivileged(*writable: Path) -> dict[str, Any]:
    """Arguments of Popen: the account nobody, if this one is root. These folders are given to it."""
    if os.geteuid() != 0:
        return {}
    for folder in writable:
        os.chown(folder, _NOBODY, _NOBODY)
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def started(program: Path, options: Sequence[str], log: Path, *, root: Path) -> subprocess.Popen[bytes]:
    """A program of Vitess that runs in `root`, where it may write."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(program), *options], cwd=root, env={**os.environ, "VTDATAROOT": str(root)},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, **unprivileged(root),
        )  # fmt: skip


def _built(name: str, package: str, version: str) -> Path:
    kept = cache() / f"{name}-{version}"
    if kept.exists():
        return kept
    if find_binary("go") is None:
        missing(f"{name} is built by Go 1.26 or later, and there is none")
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        for command in (
            ["go", "mod", "init", "build"],
            ["go", "get", f"{package}@v{version}"],
            ["go", "build", "-o", name, package],
        ):
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
            )
            if done.returncode:
                missing(f"{name} {version} cannot be built ({' '.join(command)}): {done.stderr.strip()[-300:]}")
        kept_as(Path(folder) / name, kept)
    return kept
