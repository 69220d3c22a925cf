"""A pytest plugin that writes each test's outcome to a file as soon as it is known, so that a crash loses nothing.

Runs inside a suite's own environment: standard library and pytest only. One JSON object a line: id, outcome, detail.
"""

from __future__ import annotations

import json
import os
from typing import Any

_WORST = {"failed": 3, "skipped": 2, "passed": 1}
_reports: dict[str, tuple[str, str]] = {}


def pytest_runtest_logreport(report: Any) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "passed" if outcome == "passed" else "skipped"
    known, _ = _reports.get(report.nodeid, ("passed", ""))
    if report.nodeid not in _reports or _WORST[outcome] > _WORST[known]:
        _reports[report.nodeid] = (outcome, _detail(report))
    if report.when == "teardown":
        _write(report.nodeid, *_reports.pop(report.nodeid))


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(f"{report.nodeid} (collection)", "failed", str(report.longrepr)[-400:])


def pytest_sessionfinish() -> None:
    for nodeid, (outcome, detail) in _reports.items():
        _write(nodeid, outcome, detail)


def _detail(report: Any) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "")[:400]


def _write(nodeid: str, outcome: str, detail: str) -> None:
    with open(os.environ["SUITE_RESULTS"], "a") as file:
        file.write(json.dumps({"id": nodeid, "outcome": outcome, "detail": detail}) + "\n")
