"""Where the fuzzer finds what it shares with other suites, also when it is run as a program: to be imported first."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

for folder in (TESTS.parent, TESTS, TESTS / "support"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
