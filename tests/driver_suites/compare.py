"""Runs drivers' own test suites directly against MariaDB and through the proxy, and compares test by test.

    python tests/driver_suites/compare.py                      what there is
    python tests/driver_suites/compare.py pymysql go-sql-driver
    python tests/driver_suites/compare.py --jobs 3 --json out.json all
    python tests/driver_suites/compare.py --embedded pymysql   on the embedded backend, beside MariaDB

Each run has a fresh MariaDB of its own, the runs through the proxy a fresh gate as well. Where the two differ, both are
run again, to tell a difference from a test that is not even equal to itself. Exit code 1: something is lost through
the proxy (a test that fails directly alone is listed, no more); 2: a suite cannot be had here. With --embedded, 1 means
that less than 95 % passes of what passes on MariaDB and is not refused by a rule of docs/embedded.md
(`embedded_rules.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from catalog import SUITES, Suite, Target  # noqa: E402
from embedded_rules import EmbeddedShare, share  # noqa: E402
from outcomes import Comparison, Run, compare  # noqa: E402
from servers import Gate, MariaDb  # noqa: E402
from sources import Cache, Unavailable  # noqa: E402

DEFAULT_CACHE = Path.home() / ".cache/queuegate-suites"


class Options(Protocol):
    """What the command line says of a run."""

    only: Sequence[str]
    logs: Path | None
    repeats: int | None
    embedded: bool


@contextlib.contextmanager
def running(suite: Suite, folder: Path, faults: list[str], *, proxied: bool) -> Iterator[Target]:
    """A fresh server for one run, and what stands before it. A gate that ends badly is told in `faults`."""
    server = MariaDb(suite.options)
    try:
        server.install()
        server.start()
        server.prepare()
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in suite.setup:
                cursor.execute(statement)
        if not proxied:
            yield Target(server.port, server.socket)
            return
        with _gate(suite, server.url(), folder, faults) as gate:
            yield Target(gate.port, server.socket)
    finally:
        server.remove()


@contextlib.contextmanager
def running_embedded(suite: Suite, folder: Path, faults: list[str]) -> Iterator[Target]:
    """A gate on a fresh file, with its one database and its one account."""
    with _gate(suite, f"sqlite:///{folder}/queue.db", folder, faults) as gate:
        yield Target(gate.port, folder / "no-socket", embedded=True)


@contextlib.contextmanager
def _gate(suite: Suite, backend: str, folder: Path, faults: list[str]) -> Iterator[Gate]:
    gate = Gate(backend, folder)
    gate.start()
    try:
        yield gate
    finally:
        try:
            gate.stop()
        except AssertionError as fault:
            faults.append(f"{suite.name}: the gate told of a defect of its own, or did not end well: {fault}"[:1500])


def run_once(suite: Suite, given: Options, faults: list[str], *, proxied: bool) -> Run:
    """One run from a fresh server to the outcomes."""
    way = "direct" if not proxied else "embedded" if given.embedded else "proxied"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qg-suite-") as temporary:
        folder = Path(temporary)
        gate_folder = folder / "gate"
        gate_folder.mkdir()
        try:
            place = (
                running_embedded(suite, gate_folder, faults)
                if way == "embedded"
                else running(suite, gate_folder, faults, proxied=proxied)
            )
            with place as target:
                run = suite.run(target, folder, given.only)
        finally:
            if given.logs:
                _keep(folder, given.logs / f"{suite.name}-{way}")
    print(f"{suite.name}, {way}: {len(run)} tests in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return run


def _keep(folder: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in ("log", "results.jsonl", "gate/log"):
        if (folder / file).exists():
            shutil.copy(folder / file, target / file.replace("/", "-"))


def compare_suite(suite: Suite, given: Options) -> Comparison:
    """Run both ways, and again while they differ."""
    direct: list[Run] = []
    proxied: list[Run] = []
    faults: list[str] = []
    while True:
        direct.append(run_once(suite, given, faults, proxied=False))
        proxied.append(run_once(suite, given, faults, proxied=True))
        found = compare(suite.name, direct, proxied, faults)
        for difference in () if given.embedded else found.differences:
            line = f"{suite.name}, {difference.test}: {difference.direct}, {difference.proxied}"
            print(line, file=sys.stderr, flush=True)
        repeats = given.repeats if given.repeats is not None else 0 if given.embedded else 1
        if not found.differences or len(direct) > repeats:
            return found


def report(found: Sequence[Comparison]) -> Iterator[str]:
    """The table, then what differs."""
    yield f"{'suite':<28}{'tests':>7}  {'direct (passed/failed/skipped)':<32}{'proxied':<22}{'differ':>7}{'flaky':>7}"
    for one in found:
        counts = ["/".join(str(way.get(verdict, 0)) for verdict in ("passed", "failed", "skipped"))
                  for way in (one.direct, one.proxied)]  # fmt: skip
        yield (
            f"{one.suite:<28}{one.tests:>7}  {counts[0]:<32}{counts[1]:<22}{len(one.differences):>7}{len(one.flaky):>7}"
        )
    for one in found:
        for difference in one.differences:
            yield f"{one.suite}: {difference.test}\n    direct {difference.direct}, proxied {difference.proxied}"
            yield f"    {difference.detail}"
        yield from one.faults
        for test in one.flaky:
            yield f"{one.suite}: not equal to itself: {test}"


def report_shares(found: Sequence[EmbeddedShare]) -> Iterator[str]:
    """How much passes on the embedded backend, then each test that does not, and why."""
    yield f"{'suite':<28}{'on MariaDB':>11}{'refused':>9}{'embedded':>10}{'share':>9}"
    for one in found:
        yield f"{one.suite:<28}{one.direct:>11}{len(one.refused):>9}{one.embedded:>10}{one.percent:>8.1f}%"
    for one in found:
        for test, rule in one.refused.items():
            yield f"{one.suite}: {test}\n    refused: {rule}"
        for test, detail in one.lost.items():
            yield f"{one.suite}: {test}\n    LOST: {detail}"
        yield from one.faults


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="drivers' own suites, directly and through the proxy")
    parser.add_argument("suites", nargs="*", help="names, or 'all'; none lists them")
    parser.add_argument("--only", action="append", default=[], help="tests, in the words of the suite's own runner")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where suites are kept between runs")
    parser.add_argument("--checkouts", type=Path, help="a folder of repositories at hand, such as a PyMySQL clone")
    parser.add_argument("--logs", type=Path, help="where to keep what the runners and the gate said")
    parser.add_argument("--json", type=Path, help="where to write everything that was found")
    parser.add_argument("--repeats", type=int, help="how often both are run again where they differ: 1; embedded: 0")
    parser.add_argument("--jobs", type=int, default=1, help="how many suites run at once: 1")
    parser.add_argument("--workers", type=int, help="how many workers the proxy has (MariaDB only): 1")
    parser.add_argument(
        "--embedded", action="store_true", help="the embedded backend in place of the proxy before MariaDB"
    )
    given = parser.parse_args(arguments)
    if given.workers:
        os.environ["QUEUEGATE_TEST_WORKERS"] = str(given.workers)
    known = {suite.name: suite for suite in SUITES if suite.embeddable or not given.embedded}
    names = list(known) if given.suites == ["all"] else given.suites
    if not names or not set(names) <= set(known):
        print("suites:", *known, sep="\n  ")
        return 2 if names else 0
    found, missing = _compare_all([known[name] for name in names], given)
    shares = [share(one) for one in found] if given.embedded else []
    print("\n".join(report_shares(shares) if given.embedded else report(found)))
    for line in missing:
        print(f"NOT COMPARED: {line}")
    if given.json:
        given.json.write_text(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
    good = all(one.enough for one in shares) if given.embedded else all(one.nothing_lost for one in found)
    return 1 if not good else 2 if missing else 0


def _compare_all(suites: Sequence[Suite], given: Any) -> tuple[list[Comparison], list[str]]:
    cache = Cache(given.cache, given.checkouts)
    ready, missing = [], []
    for suite in suites:
        try:
            what = suite.prepare(cache)
        except Unavailable as error:
            missing.append(f"{suite.name}: {error}")
            continue
        print(f"{suite.name}: {what}", file=sys.stderr, flush=True)
        ready.append(suite)
    # Each run has a server, a gate and a folder of its own, so suites may run beside each other.
    with ThreadPoolExecutor(given.jobs) as pool:
        return list(pool.map(lambda suite: compare_suite(suite, given), ready)), missing


if __name__ == "__main__":
    sys.exit(main())
