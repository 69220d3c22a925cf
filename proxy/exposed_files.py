"""The files of the proxy that others than their owner may read, reported once at the start.

Nothing is changed: there may be a reason, such as a backup by another account.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proxy.config import Config, ConfigError, contents

_SECRETS = frozenset(("password", "password_hash", "secret"))


def exposed_files(config: Config, file: Path | None) -> list[str]:
    """A sentence for each. `file`: the configuration's own, None where there is none."""
    exposed = []
    if file is not None and _others_read(file) and _contains_secrets(file):
        exposed.append(f"everybody may read {file}, which has passwords or their hashes in it: chmod o= {file}")
    for key in sorted({key for key in _keys(config) if _others_read(Path(key))}):
        exposed.append(f"everybody may read the key {key}: chmod o= {key}")
    if config.backend.embedded:
        path = Path(config.backend.path)
        open_ones = [one for one in (path, *_wal_files(path)) if _others_read(one)]
        if open_ones:
            names = " ".join(map(str, open_ones))
            exposed.append(f"everybody may read all messages in the database file {path}: chmod o= {names}")
    return exposed


def _wal_files(path: Path) -> Iterator[Path]:
    for ending in ("-wal", "-shm"):
        yield path.with_name(path.name + ending)


def _keys(config: Config) -> Iterator[str]:
    for files in (config.tls, config.console):
        if key := files.key or files.certificate:
            yield key


def _others_read(file: Path) -> bool:
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # it is not there


def _contains_secrets(file: Path) -> bool:
    try:
        data = contents(file)
    except (OSError, ConfigError):
        return False  # it was another when it was read
    backend = data.get("backend")
    return _secret_in(data) or (isinstance(backend, str) and ":" in backend.partition("://")[2].rpartition("@")[0])


def _secret_in(data: Any) -> bool:
    if isinstance(data, Mapping):
        return any((key in _SECRETS and bool(value)) or _secret_in(value) for key, value in data.items())
    return isinstance(data, list) and any(map(_secret_in, data))
