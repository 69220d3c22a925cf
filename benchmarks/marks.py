"""What a job of a benchmark leaves behind: in files that all workers append to, which costs a system call anywhere.

Imported by programs of other Python versions, with other packages: it needs nothing but Python.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

FOLDER = "QUEUEGATE_BENCH_FOLDER"
"""The environment variable that names the folder."""

SAMPLE = struct.Struct("<d")
DONE, TOOK, READY = "done", "took", "ready"
"""The files: a byte for each job that is done; a sample, seconds, for each lone one; a byte for each worker that is
ready."""


def done() -> None:
    """A job that does nothing has run."""
    append(DONE, b".")


def took(sent: float) -> None:
    """A lone job has begun; `sent` is when it was enqueued, by time.time() of this machine."""
    append(TOOK, SAMPLE.pack(time.time() - sent))


def append(name: str, data: bytes) -> None:
    """Add to one of the files."""
    file = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def size(folder: Path, name: str) -> int:
    """How much is in it."""
    file = folder / name
    return file.stat().st_size if file.exists() else 0


def samples(folder: Path) -> list[float]:
    """How long each lone job was on its way, in seconds."""
    return [sample for (sample,) in SAMPLE.iter_unpack((folder / TOOK).read_bytes())]
