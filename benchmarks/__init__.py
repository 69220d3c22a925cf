"""Benchmarks. They start databases and gates as the tests do, whose modules find each other by their plain names."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
