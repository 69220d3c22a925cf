"""Numbers and how they are shown: a measurement names what was measured, where, how durable, in what batches."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import scratch

_FLUSHES = 100


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the report. `values` maps a column to its number; the column's name ends in its unit."""

    subject: str
    backend: str
    durability: str
    batch: int
    messages: int
    values: dict[str, float] = field(default_factory=dict)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The sample that `percent` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered)) - 1))]


MEDIAN, P99 = "median ms", "p99 ms"


def latencies(seconds: Sequence[float]) -> dict[str, float]:
    """Of statements or messages: the columns MEDIAN and P99, in milliseconds."""
    return {MEDIAN: percentile(seconds, 50) * 1000, P99: percentile(seconds, 99) * 1000}


def spread(samples: Sequence[float], unit: str, scale: float = 1000) -> dict[str, float]:
    """Median, 99th percentile and worst, scaled (seconds to milliseconds unless told); the unit ends their names."""
    assert samples
    return {
        f"median {unit}": round(percentile(samples, 50) * scale, 2),
        f"p99 {unit}": round(percentile(samples, 99) * scale, 2),
        f"worst {unit}": round(max(samples) * scale, 2),
    }


def system() -> str:
    """The kernel's name and version, without what a builder added to it: that says nothing to a reader."""
    version = re.match(r"\d+(\.\d+)?", platform.release())
    return f"{platform.system()} {version[0] if version else platform.release()}"


def machine() -> dict[str, str]:
    """What the numbers depend on besides the code."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return {
        "cpu": f"{model[1] if model else platform.processor()}, {os.cpu_count()} cores",
        "system": system(),
        "python": platform.python_version(),
        "files": files(),
    }


def files() -> str:
    """Where servers have their files, and how long a flush takes there."""
    took = []
    with tempfile.TemporaryFile(dir=scratch.folder(), buffering=0) as file:
        for _ in range(_FLUSHES):
            file.write(b"x" * 512)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return f"{lie(scratch.folder())}, a flush takes {median(took) * 1000:.2f} ms"


def lie(folder: Path) -> str:
    """Where the files in a folder are: a flush takes no time in memory."""
    kinds = {fields[1]: fields[2] for fields in map(str.split, Path("/proc/mounts").read_text().splitlines())}
    mount = max((point for point in kinds if folder.is_relative_to(point)), key=len)
    return "in memory" if kinds[mount] == "tmpfs" else f"on {kinds[mount]}"


def load() -> str:
    """How busy the machine is: the load averages of the last 1, 5 and 15 minutes."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def table(measurements: Iterable[Measurement]) -> str:
    """A table for each set of columns, in the order measured; equal columns mean that numbers may be compared."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(tuple(measurement.values), []).append(measurement)
    return "\n\n".join(_table(columns, rows) for columns, rows in groups.items())


def _table(columns: tuple[str, ...], rows: list[Measurement]) -> str:
    lines = [["", "backend", "durability", "batch", "messages", *columns]]
    for row in rows:
        numbers = [f"{row.values[column]:,.2f}".removesuffix(".00") for column in columns]
        lines.append([row.subject, row.backend, row.durability, str(row.batch), f"{row.messages:,}", *numbers])
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    texts = [
        "  ".join(
            cell.ljust(w) if n < 3 else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    texts.insert(1, "-" * len(texts[0]))
    return "\n".join(text.rstrip() for text in texts)


def as_json(measurements: Iterable[Measurement], facts: Mapping[str, str]) -> str:
    """The same numbers for a program."""
    return json.dumps({"machine": dict(facts), "measurements": [asdict(m) for m in measurements]}, indent=2)


def of_the_run(started: float, load_before: str, repeats: int) -> dict[str, str]:
    """The lines of a report's head that say when it ran, for how long (since `started`, monotonic) and beside what."""
    turns = "1 repeat" if repeats == 1 else f"{repeats} repeats"
    return {
        "load": f"{load_before} before, {load()} after (1, 5 and 15 minutes)",
        "run": f"{time.strftime('%Y-%m-%d')}, {turns}, {time.monotonic() - started:.0f} s",
    }
