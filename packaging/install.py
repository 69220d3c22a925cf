"""Makes a virtual environment and installs into it, and shows on one line what it is at: `install.py venv FOLDER`, or
`install.py WHAT ...` of the environment itself, which is `pip install` with the packages as they come.

A dot every two seconds says that it goes on: on a busy machine a step of it takes the better part of a minute. Where it
fails: all that was said.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence

PIP = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check", "--editable"]
DOT_SECONDS = 2.0


def main() -> int:
    """Do what the arguments say; the exit code of the program that did it."""
    if sys.argv[1:2] == ["venv"]:
        _show("a virtual environment with pip ")
        return _run([sys.executable, "-m", "venv", *sys.argv[2:]])
    return _run([*PIP, *sys.argv[1:]])


def _run(command: Sequence[str]) -> int:
    said = []
    ended = threading.Event()
    alive = threading.Thread(target=_dots, args=(ended,), daemon=True)
    alive.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if found := re.match(r"Collecting ([\w.-]+)", line):
                _show(f"{found[1]} ")
            elif line.startswith("Installing collected"):
                _show("unpacking ")
    ended.set()
    alive.join()
    _show("\n")
    if process.returncode:
        _show("".join(said) + "\n")
    return process.returncode


def _dots(ended: threading.Event) -> None:
    while not ended.wait(DOT_SECONDS):
        _show(". ")


def _show(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
