"""Proof that `make test` finds the defects of docs/defects.md: each is planted again, and a test of its row fails.

    python tests/planted/planted_run.py                 # what `make planted` does
    python tests/planted/planted_run.py D16 P1          # some of them

A file `D16.patch` beside this one takes the mend of that row back. It is applied to a copy of the tree, and the tests
that the row names are run there, but for the long ones. Before that they have all passed in a copy as it is. A patch
that does not apply any more is a failure: the code has moved, and the patch has to be made again by hand.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PASSED, FAILED, NONE_COLLECTED = 0, 1, 5  # exit codes of pytest
SECONDS_MAX = 600  # for the tests of one row


class Broken(Exception):
    """What has to be mended, in a patch, a row or a test."""


def tests_of(defect: str) -> list[str]:
    """The tests that the row of this number names."""
    for line in (ROOT / "docs/defects.md").read_text().splitlines():
        if line.startswith(f"| {defect} |"):
            return [f"{path}::{name}" for path, name in NODE.findall(line)]
    raise Broken("docs/defects.md has no such row")


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tree as it is, also of what is not committed."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file() or (ROOT / name).is_symlink():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        yield Path(folder)


def apply(patch: Path, tree: Path) -> None:
    """Into the tree; the context has to be there as it was."""
    done = subprocess.run(["git", "apply", str(patch)], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"the patch does not apply any more, make it again: {done.stderr.strip()}")


def run(tests: list[str], tree: Path, *options: str) -> tuple[int, str]:
    """Pytest's exit code in this tree, which is imported in place of the installed one, and the end of what it says."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    return done.returncode, (done.stdout + done.stderr)[-3000:]


def plant(patch: Path) -> str:
    """Which of the row's tests has found the defect."""
    tests = tests_of(patch.stem)
    with copied() as tree:
        apply(patch, tree)
        code, output = run(tests, tree, "-x")
    if code == PASSED:
        raise Broken(f"none of its tests has found it: {', '.join(tests)}")
    if code == NONE_COLLECTED:
        raise Broken("all of its tests are long: make test would not find it")
    if code < 0:
        return f"pytest itself has ended by signal {-code}, which a run of the tests counts as a failure"
    found = re.search(r"^FAILED (.+?)(?: - .*)?$", output, re.MULTILINE)
    if code != FAILED or found is None:
        raise Broken(f"its tests could not be run:\n{output}")
    return found[1]


def said_of(patch: Path) -> tuple[bool, str]:
    try:
        return True, f"{patch.stem}: {plant(patch)}"
    except Broken as broken:
        return False, f"{patch.stem}: FAILED: {broken}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("defects", nargs="*", help="numbers of docs/defects.md; all that have a patch otherwise")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies at a time")
    given = parser.parse_args()
    patches = [HERE / f"{one}.patch" for one in given.defects] or sorted(HERE.glob("*.patch"))
    every = list(dict.fromkeys(test for patch in patches for test in tests_of(patch.stem)))
    with copied() as tree:
        code, output = run(every, tree)
    if code != PASSED:
        print(f"FAILED before anything was planted:\n{output}")
        return 1
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = []
        for found, words in pool.map(said_of, patches):
            print(words, flush=True)
            outcomes.append(found)
    print(f"{sum(outcomes)} of {len(outcomes)} planted defects were found")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
