"""Makes every unittest runner write each test's outcome to a file as soon as it is known.

Python imports this module by its name at start, so it works inside suites that bring runners of their own. Standard
library only. One JSON object a line: id, outcome, detail.
"""

from __future__ import annotations

import json
import os
import unittest
from typing import Any


def _recording(name: str, outcome: str) -> None:
    original = getattr(unittest.TestResult, name)

    def record(self: Any, test: Any, *arguments: Any) -> Any:
        _write(test.id(), outcome, _detail(arguments))
        return original(self, test, *arguments)

    setattr(unittest.TestResult, name, record)


def _record_subtests() -> None:
    original = unittest.TestResult.addSubTest

    def record(self: Any, test: Any, subtest: Any, error: Any) -> Any:
        if error is not None:
            _write(test.id(), "failed", _detail((error,)))
        return original(self, test, subtest, error)

    unittest.TestResult.addSubTest = record  # type: ignore[method-assign]


def _detail(arguments: tuple[Any, ...]) -> str:
    if not arguments:
        return ""
    value = arguments[0]
    return f"{value[0].__name__}: {value[1]}"[:400] if isinstance(value, tuple) else str(value)[:400]


def _write(test: str, outcome: str, detail: str) -> None:
    with open(os.environ["SUITE_RESULTS"], "a") as file:
        file.write(json.dumps({"id": test, "outcome": outcome, "detail": detail}) + "\n")


if os.environ.get("SUITE_UNITTEST"):
    _recording("addSuccess", "passed")
    _recording("addFailure", "failed")
    _recording("addError", "failed")
    _recording("addSkip", "skipped")
    _recording("addExpectedFailure", "skipped")
    _recording("addUnexpectedSuccess", "passed")
    _record_subtests()
