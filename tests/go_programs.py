"""Programs that Go builds from their own modules, which its checksum database verifies, and that are kept for later."""

from __future__ import annotations

import fcntl
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from servers import find_binary
from toolchains import cache, kept_as, missing

BUILD_SECONDS = 2400  # Vitess and Helm have a thousand packages each
_FETCHES_ITS_SUCCESSOR = (1, 21)  # from this version on Go gets the Go that a module needs


def go_version() -> tuple[int, int]:
    """That of the installed Go; (0, 0): there is none."""
    if (go := find_binary("go")) is None:
        return 0, 0
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False)
    match = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def go_program(name: str, package: str, version: str, *, too_old: str | None = None, optimised: bool = True) -> Path:
    """The program `name` of a package. Missing: a skip at a desk, a failure in CI.

    Args:
        version: of the module, without its `v`.
        too_old: why the test is skipped where Go is older than all that can build it, in CI as well; None: it is
            missing then.
        optimised: whether it is fast; building it takes twice the processor time.
    """
    kept = cache() / f"{name}-{version}"
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a test worker that needs it, too, waits for this one
        if kept.exists():
            return kept
        if (have := go_version()) < _FETCHES_ITS_SUCCESSOR:
            if too_old is not None and have > (0, 0):
                pytest.skip(too_old)
            missing(f"{name} is built by Go 1.21 or later, and there is none")
        _build(name, package, version, kept, optimised=optimised)
    return kept


def _build(name: str, package: str, version: str, kept: Path, *, optimised: bool) -> None:
    flags = [] if optimised else ["-gcflags=all=-N -l", "-ldflags=-s -w"]
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        for command in (
            ["go", "mod", "init", "build"],
            ["go", "get", f"{package}@v{version}"],
            ["go", "build", *flags, "-o", name, package],
        ):
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
            )
            if done.returncode:
                missing(f"{name} {version} cannot be built ({' '.join(command)}): {done.stderr.strip()[-300:]}")
        kept_as(Path(folder) / name, kept)
