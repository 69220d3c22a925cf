"""Runs `pip install` and shows the packages as they come, on one line. Where it fails: all that pip said."""

from __future__ import annotations

import re
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check", "--editable"]


def main() -> int:
    """Install what the arguments name; pip's exit code."""
    said = []
    with subprocess.Popen([*PIP, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if found := re.match(r"Collecting ([\w.-]+)", line):
                print(found[1], end=" ", file=sys.stderr, flush=True)
            elif line.startswith("Installing collected"):
                print("... unpacking", file=sys.stderr, flush=True)
    if pip.returncode:
        print("\n" + "".join(said), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
