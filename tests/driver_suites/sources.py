"""Where suites come from: package registries, or the project's repository; kept in a cache outside the tree.

Nothing of another project is ever copied into this one. A suite that cannot be had raises Unavailable, with what was
tried: the caller decides whether that is a skip or a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

_FETCH_SECONDS = 300  # a registry that has not answered by then is not there


class Unavailable(Exception):
    """A suite, or something it needs, cannot be had here."""


class Cache:
    """A folder of sources and virtual environments, made once and used by every later run.

    Args:
        directory: where to keep them.
        checkouts: a folder of repositories already at hand, each under its own name, used before any is fetched.
    """

    def __init__(self, directory: Path, checkouts: Path | None = None) -> None:
        self.directory = directory
        self.checkouts = checkouts
        directory.mkdir(parents=True, exist_ok=True)

    def environment(self, name: str, requirements: Sequence[str]) -> Path:
        """The Python of a virtual environment with these packages in it."""
        home = self.directory / f"venv-{name}"
        stamp = home / "installed.json"
        if not stamp.exists() or json.loads(stamp.read_text()) != list(requirements):
            shutil.rmtree(home, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(home)])
            _run([str(home / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements])
            stamp.write_text(json.dumps(list(requirements)))
        return home / "bin/python"

    def sdist(self, package: str, version: str) -> Path:
        """The unpacked source distribution of a package on PyPI."""
        unpacked = self.directory / f"{package}-{version}"
        if not unpacked.exists():
            packed = self.directory / f"{package}-{version}-sdist"
            _run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                  "--no-binary", package, f"{package}=={version}", "-d", str(packed)])  # fmt: skip
            (archive,) = packed.glob("*.tar.gz")
            _unpack(archive, unpacked)
        return unpacked

    def checkout(self, repository: str, tag: str) -> Path:
        """A repository of GitHub at a tag: one already at hand, or a clone."""
        name = repository.rpartition("/")[2]
        target = self.directory / f"{name}-{tag}"
        if not target.exists():
            local = self.checkouts / name if self.checkouts else None
            address = str(local) if local and local.exists() else f"https://github.com/{repository}"
            partial = target.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            _run(["git", "clone", "-q", "--branch", tag, address, str(partial)])
            partial.rename(target)
        return target

    def go_module(self, module: str, version: str) -> Path:
        """The source of a Go module, tests included, from the module proxy."""
        if shutil.which("go") is None:
            raise Unavailable("go is not installed")
        said = _run(["go", "mod", "download", "-json", f"{module}@{version}"])
        return Path(json.loads(said)["Dir"])


def fresh_copy(source: Path, target: Path) -> Path:
    """A copy that a run may write into; Go's module cache is read-only."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git"))
    for folder, _, files in os.walk(target):
        for path in (folder, *(os.path.join(folder, file) for file in files)):
            os.chmod(path, os.stat(path).st_mode | 0o200)
    return target


def _unpack(archive: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(partial, filter="data")
    (inner,) = partial.iterdir()
    inner.rename(target)
    partial.rmdir()


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command[:4])}: {error}") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout
