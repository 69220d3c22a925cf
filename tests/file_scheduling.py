"""Which process of `pytest -n` runs what: one process runs a whole file, and the files that take longest come first.

What a module or a session prepares is then prepared once, not once in each process: gates of a configuration, compiled
clients, what a server itself answers. The contract's share on MySQL counts as one file, for one MySQL. And no process
is alone at the end with a file that takes minutes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from xdist.scheduler import LoadScopeScheduling

_SECONDS = {
    "packaging/test_compiled.py": 60.0,
    "integration/test_driver_suites.py": 60.0,
    "monitoring/test_alerts_live.py": 60.0,
    "browser": 4.0,
    "celery": 3.0,
    "faults": 3.0,
    "security": 1.0,
    "integration": 0.8,
    "simulation": 0.8,
    "fuzz": 0.6,
    "contract": 0.15,
}
"""What a test takes, about, by its file or folder; those of others take a tenth of a second at most."""


def _expected_seconds(file: str, tests: int) -> float:
    return tests * next((seconds for place, seconds in _SECONDS.items() if f"tests/{place}" in file), 0.1)


class _LongestFirst(OrderedDict[str, dict[str, bool]]):
    """xdist's queue of work takes its next item from here."""

    def popitem(self, last: bool = True) -> tuple[str, dict[str, bool]]:
        file = max(self, key=lambda name: _expected_seconds(name, len(self[name])))
        return file, self.pop(file)


class FileScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, where a scope is a file."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.workqueue = _LongestFirst()

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return "tests/contract/ on MySQL" if file.startswith("tests/contract/") and "[mysql" in test else file
