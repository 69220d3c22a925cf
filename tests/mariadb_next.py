"""A private MariaDB of the newest long-term release, 11.8: the packages of a newer Debian, unpacked beside the system.

They are fetched once (install_mariadb_next.sh) and kept with the other downloads. The server runs under its own loader
and libraries, so it does not depend on the system's.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from servers import ROOT, MariaDb
from toolchains import cache, kept_as, missing

SUITE = "trixie"
_FETCH_SECONDS = 600
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"
_TABLES = ("mariadb_system_tables", "mariadb_performance_tables", "mariadb_system_tables_data", "fill_help_tables")


def unpacked() -> Path:
    """The folder that stands for the root of that Debian. Missing: a skip at a desk, a failure in CI."""
    kept = cache() / f"mariadb-{SUITE}"
    if kept.exists():
        return kept
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        missing(f"there is no MariaDB of {SUITE} for {platform.system()} on {platform.machine()}")
    with tempfile.TemporaryDirectory(dir=cache()) as made:
        folder = Path(made) / "root"
        script = [str(ROOT / "tests" / "install_mariadb_next.sh"), str(folder), SUITE]
        done = subprocess.run(script, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        if done.returncode:
            missing(f"the MariaDB of Debian {SUITE} cannot be had: {done.stderr.strip()[-300:]}")
        kept_as(folder, kept)
    return kept


class MariaDbNext(MariaDb):
    """Like MariaDb, of the newer release."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._home = unpacked()
        super().__init__(options)

    def install(self) -> None:
        """Copy the system tables, which are made once."""
        made = cache() / f"mariadb-{SUITE}-data"
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as folder:
                self._make_tables(Path(folder) / "data")
                kept_as(Path(folder) / "data", made)
        shutil.copytree(made, self.directory / "data")

    def _make_tables(self, data: Path) -> None:
        (data / "mysql").mkdir(parents=True)
        share = self._home / "usr/share/mariadb"
        texts = ["CREATE DATABASE IF NOT EXISTS mysql;", "USE mysql;", "SET @auth_root_socket = NULL;"]
        texts += [(share / f"{name}.sql").read_text() for name in _TABLES]
        done = subprocess.run(
            [*self._program(), f"--datadir={data}", "--bootstrap", "--skip-networking", *self._user()],
            input="\n".join(texts), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            missing(f"the MariaDB of Debian {SUITE} does not run here: {done.stderr.strip()[-300:]}")

    def _command(self) -> list[str]:
        return [*self._program(), *self._everywhere()]

    def _program(self) -> list[str]:
        home = self._home
        share = home / "usr/share/mariadb"
        return [
            str(home / _LOADER), "--library-path", str(home / "usr/lib/x86_64-linux-gnu"),
            str(home / "usr/sbin/mariadbd"), "--no-defaults", f"--lc-messages-dir={share / 'english'}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={home / 'usr/lib/mysql/plugin'}",
        ]  # fmt: skip
