"""Parts that sysbench drives: a C client, so that the client's own cost hides as little as possible of the proxies'.

sysbench prepares its tables once, directly. Its output is read while it runs: CPU is counted from "Threads started!",
when all connections are there, to the first line of the statistics.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Part, Run, Sample, Stretch
from benchmarks.rivals import DIRECT, HAPROXY, HAPROXY_DEFAULT, QUEUEGATE, WORKERS, Arena, Rival
from tests.servers import DATABASE, find_binary

LUA = Path(__file__).resolve().parent / "lua"
ALL = (DIRECT, HAPROXY, HAPROXY_DEFAULT, QUEUEGATE, WORKERS)
SINGLE = (DIRECT, HAPROXY, QUEUEGATE)
TABLES, ROWS = 4, 25_000  # 20 MB in all: the buffer pool holds it, and 64 writers seldom want the same row
QUICK = {
    ("oltp_point_select", 1, "auto"),
    ("oltp_point_select", 8, "auto"),
    ("oltp_point_select", 8, "disable"),
    ("oltp_point_select", 64, "auto"),
    ("oltp_read_write", 8, "disable"),
}
TABLE_OPTIONS = (f"--tables={TABLES}", f"--table-size={ROWS}")


class SysbenchFailed(Exception):
    """sysbench ended with an error; its output is the message."""


def sysbench(rival: Rival, script: str, threads: int, seconds: float, *options: str) -> list[str]:
    """The command line of one run."""
    program = find_binary("sysbench")
    assert program is not None
    return [
        program, script, "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={rival.port}",
        "--mysql-user=root", f"--mysql-db={DATABASE}", f"--threads={threads}", *_length(seconds),
        "--percentile=99", "--histogram=on", *options, "run",
    ]  # fmt: skip


def _length(seconds: float) -> tuple[str, str]:
    """sysbench knows whole seconds only; less is a warm-up, and counted in events."""
    return ("--time=5", "--events=1000") if seconds < 1 else (f"--time={round(seconds)}", "--events=0")


def run(
    arena: Arena, rival: Rival, script: str, threads: int, seconds: float, *options: str, unit: str = "queries/s"
) -> Sample:
    """One run, and what it gave. `unit` is the name of the rate: queries, or events where an event is not a query."""
    command = sysbench(rival, script, threads, seconds, *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    stretch = Stretch(arena, rival)
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Threads started!"):
            stretch = Stretch(arena, rival)
        elif line.startswith(("SQL statistics", "Latency histogram")):
            stretch.end()
    text = "".join(lines)
    if process.wait(60) != 0 or "FATAL" in text:
        raise SysbenchFailed(f"{' '.join(command)}\n{text[-2000:]}")
    return stretch.sample(*_parsed(text, unit))


def _parsed(text: str, unit: str) -> tuple[int, dict[str, float]]:
    took = float(_found(r"total time:\s+([\d.]+)s", text))
    pattern = r"queries:\s+(\d+)" if unit.startswith("queries") else r"total number of events:\s+(\d+)"
    operations = int(_found(pattern, text))
    histogram = [(float(ms), int(n)) for ms, n in re.findall(r"^\s*([\d.]+) \|\**\s*(\d+)$", text, re.MULTILINE)]
    return operations, {
        unit: operations / took,
        "median us": _quantile(histogram, 0.5) * 1000,
        "p99 us": _quantile(histogram, 0.99) * 1000,
    }


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SysbenchFailed(f"no {pattern!r} in\n{text[-2000:]}")
    return match[1]


def _quantile(histogram: Sequence[tuple[float, int]], share: float) -> float:
    """Milliseconds below which that share of the events stayed. Buckets are 1.8 % wide and printed in whole
    microseconds, so it is reckoned in proportion within what is printed as one value."""
    buckets: Counter[float] = Counter()
    for value, count in histogram:
        buckets[value] += count
    wanted = share * buckets.total()
    for value, count in buckets.items():
        if wanted <= count:
            width = max(0.001, value * 0.018)
            return value + width * (wanted / count - 0.5)
        wanted -= count
    raise SysbenchFailed("an empty histogram")


def prepare(arena: Arena) -> None:
    """sysbench's own tables, made directly; once for all parts."""
    with arena.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        if cursor.execute("SHOW TABLES LIKE 'sbtest1'"):
            return
    direct = arena.named(DIRECT)[0]
    command = [*sysbench(direct, "oltp_common", 1, 1, *TABLE_OPTIONS)[:-1], "prepare"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise SysbenchFailed(done.stdout[-2000:] + done.stderr[-2000:])


def _standard(script: str, threads: int, mode: str) -> Run:
    def work(arena: Arena, rival: Rival, seconds: float) -> Sample:
        return run(arena, rival, script, threads, seconds, *TABLE_OPTIONS, f"--db-ps-mode={mode}")

    return work


def _part(script: str, threads: int, mode: str) -> Part:
    prepared = "prepared statements" if mode == "auto" else "text protocol"
    clients = "1 connection" if threads == 1 else f"{threads} connections"
    return Part(
        name=f"{script.removeprefix('oltp_')}-{threads}-{'prepared' if mode == 'auto' else 'text'}",
        title=f"sysbench {script}, {clients}, {prepared}",
        run=_standard(script, threads, mode),
        main="queries/s",
        rivals=SINGLE if threads == 1 else ALL,
        needs="sysbench",
        prepare=prepare,
        quick=(script, threads, mode) in QUICK,
    )


def _connects(threads: int) -> Part:
    def work(arena: Arena, rival: Rival, seconds: float) -> Sample:
        return run(arena, rival, str(LUA / "connect.lua"), threads, seconds, unit="connects/s")

    return Part(
        name=f"connect-{threads}",
        title=f"connect, SELECT 1, quit: {threads} at a time",
        run=work,
        main="connects/s",
        rivals=SINGLE if threads == 1 else ALL,
        operation="connect",
        needs="sysbench",
        quick=threads > 1,
    )


PARTS = (
    *(_part("oltp_point_select", threads, mode) for threads in (1, 8, 64) for mode in ("auto", "disable")),
    *(_part("oltp_read_write", threads, mode) for threads in (8, 64) for mode in ("auto", "disable")),
    _connects(1),
    _connects(8),
)
