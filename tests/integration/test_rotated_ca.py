"""The database gets a certificate of another CA while the proxy runs. MariaDB only."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from certificates import Authority
from servers import Gate, MariaDb, Sql, private

OWN: dict[str, dict[str, Any]] = {
    "backend": {},
    "proxy": {"auth": "proxy", "users": [{"name": "root", "password": ""}]},
}


class Files:
    """The files of the server and of the proxy, in one folder, and two authorities."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authorities = [Authority(folder, "first authority"), Authority(folder, "second authority")]
        self.issued = [each.issue(each.ca.stem + "-server", "127.0.0.1") for each in self.authorities]

    def install(self, number: int) -> None:
        """Those of one authority take the place of the other's."""
        certificate, key = self.issued[number]
        for source, name in ((certificate, "db.pem"), (key, "db.key"), (self.authorities[number].ca, "ca.pem")):
            shutil.copy(source, self.folder / f"{name}.new")
            (self.folder / f"{name}.new").chmod(0o644)
            (self.folder / f"{name}.new").rename(self.folder / name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("rotated")
    for each in (folder, folder.parent):
        each.chmod(0o755)
    return Files(folder)


@pytest.fixture(scope="module")
def server(files: Files) -> Iterator[MariaDb]:
    files.install(0)
    with private(MariaDb([f"--ssl-cert={files.folder}/db.pem", f"--ssl-key={files.folder}/db.key"])) as server:
        yield server


@pytest.mark.parametrize("auth", OWN)
def test_another_ca(server: MariaDb, files: Files, tmp_path: Path, auth: str) -> None:
    """Clients' connections go on, as the engine's do, and a failure is logged."""
    files.install(0)
    _flush(server)
    url = f"{server.url()}?ssl=verify_identity&ssl_ca={files.folder}/ca.pem"
    gate = Gate(url, tmp_path, **OWN[auth]).start()
    try:
        assert _select(gate) == 1
        shutil.copy(files.issued[1][0], files.folder / "db.pem")
        shutil.copy(files.issued[1][1], files.folder / "db.key")
        _flush(server)
        with pytest.raises(pymysql.OperationalError, match="certificate verify failed"):
            _select(gate)
        assert "TLS to the database failed for a client's connection" in gate.log
        (files.folder / "ca.pem").write_text("half a")
        with pytest.raises(pymysql.OperationalError, match="certificate verify failed"):
            _select(gate)
        assert "the database's TLS files were not renewed, the old ones stay" in gate.log
        files.install(1)
        assert _select(gate) == 1
    finally:
        gate.stop()


def _select(gate: Gate) -> object:
    with gate.connect() as connection:
        return Sql(connection).value("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'main'")


def _flush(server: MariaDb) -> None:
    """The server reads its certificate again."""
    with server.connect() as connection:
        Sql(connection)("FLUSH SSL")
