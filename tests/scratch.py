"""Where tests keep what they throw away: databases in memory, where there is room, and compiled modules in a cache.

A commit is flushed all the same; on a file system in memory the flush takes no time. No test cuts the power, so a
killed process finds there what it would find on a disk.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

_FOLDER = "QUEUEGATE_SCRATCH"
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6_000_000_000  # a server takes 200 MB, and each process of pytest has two or three at a time
_BYTECODE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "bytecode"


def use_disk() -> None:
    """Have this process, and those that it starts, use the usual folder for temporary files: benchmarks do, for whose
    users a flush takes time. TMPDIR names another folder."""
    os.environ[_FOLDER] = tempfile.gettempdir()


def folder() -> Path:
    """A folder in memory; the usual one for temporary files where there is none, or no room in it."""
    if named := os.environ.get(_FOLDER):
        return Path(named)
    try:
        roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    except OSError:
        roomy = False
    return _MEMORY if roomy else Path(tempfile.gettempdir())


def use() -> None:
    """Have pytest, and all processes that tests start, use both. PYTEST_DEBUG_TEMPROOT names another folder."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder()))
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Compiling the proxy and its libraries takes more than half of the time that it takes to start.
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(_BYTECODE)
        sys.dont_write_bytecode = False
