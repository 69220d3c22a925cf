"""Vitess 24's programs and etcd, built by Go from their own modules, which its checksum database verifies.

The first takes some minutes, and the others, which are made of the same packages, less.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from go_programs import go_program

VITESS = "0.24.4"
"""Vitess 24.0.4, as its Go module is numbered."""

_ETCD = "3.5.17"
_NOBODY = 65534  # Vitess's programs refuse to run as root


def vitess_program(name: str) -> Path:
    """One of Vitess's programs. Missing: a skip at a desk, a failure in CI."""
    return go_program(name, f"vitess.io/vitess/go/cmd/{name}", VITESS)


def etcd() -> Path:
    """The topology server of a Vitess. Missing: a skip at a desk, a failure in CI."""
    return go_program("etcd", "go.etcd.io/etcd/server/v3", _ETCD)


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
