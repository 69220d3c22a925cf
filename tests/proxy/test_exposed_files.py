"""Which files are told of at the start, without a process."""

from __future__ import annotations

import pytest

from proxy.config import load
from proxy.exposed_files import exposed_files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("backend: mysql://app:secret@127.0.0.1:3306/shop\n", 1),
        ("backend: mysql://app@127.0.0.1:3306/shop\n", 0),
        ("users: [{name: root, password: ''}]\n", 0),
        ("users: [{name: root, password_env: ROOT_PASSWORD}]\n", 0),
        ("users: [{name: root, password: pw}]\n", 1),
    ],
)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600, 0o604])
def test_a_file_with_secrets(tmp_path, text, told, mode):
    file = tmp_path / "config.yaml"
    backend = "" if "backend" in text else f"backend: sqlite:///{tmp_path}/q.db\n"
    file.write_text(f"{backend}{text}")
    file.chmod(mode)
    found = exposed_files(load(file, environment={"ROOT_PASSWORD": "pw"}), file)
    assert len(found) == (told if mode & 0o004 else 0)


def test_the_files_beside_a_database(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(f"backend: sqlite:///{tmp_path}/q.db\n")
    assert exposed_files(load(file, environment={}), file) == []
    (tmp_path / "q.db").touch(0o600)
    (tmp_path / "q.db-wal").touch()
    (tmp_path / "q.db-wal").chmod(0o644)
    (told,) = exposed_files(load(file, environment={}), None)
    assert told.endswith(f"chmod o= {tmp_path}/q.db-wal")
