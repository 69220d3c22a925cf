"""Commands that need no server: init, completion and work."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from queuegate.cli.failures import ConsoleError

_complete: Callable[..., str] | None
_files: Mapping[str, Any]
try:
    import shtab

    _complete, _files = shtab.complete, shtab.FILE
except ImportError:
    _complete, _files = None, {}  # an extra: no one needs it to serve

SHIPPED = Path(__file__).with_name("config.yaml")
"""A link to the one at the top of the repository; in a wheel a copy."""

_WORKER = "queuegate_worker"


def init(options: argparse.Namespace) -> int:
    """Write the configuration file with every key, its default and its meaning, unless it overwrites a file."""
    text = SHIPPED.read_text("utf-8")
    if options.file == "-":
        output = json.dumps({"command": "init", "file": None, "text": text}) + "\n" if options.json else text
        sys.stdout.write(output)
        return 0
    path = Path(options.file)
    try:
        with path.open("w" if options.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConsoleError(f"{path}: is there already; --force overwrites it") from None
    done = f"{path} is written. `queuegate serve --config {path}` serves with it\n"
    sys.stdout.write(json.dumps({"command": "init", "file": str(path)}) + "\n" if options.json else done)
    return 0


def completion(parser: argparse.ArgumentParser, shell: str, *, as_json: bool = False) -> int:
    """Print the script by which a shell completes the command line, made of its parser by shtab, or an object that has
    it."""
    if _complete is None:
        raise ConsoleError("completion needs the extra `completion`: pip install 'queuegate[completion]'")
    _complete_files(parser)
    script = _complete(parser, shell) + "\n"
    output = {"command": "completion", "shell": shell, "script": script}
    sys.stdout.write(json.dumps(output) + "\n" if as_json else script)
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Names of files where an option or argument takes one. shtab reads it off this attribute."""
    for action in parser._actions:  # argparse has no public way to ask for them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command)
        elif action.metavar == "FILE":
            action.complete = _files  # type: ignore[attr-defined]


def work(options: argparse.Namespace) -> int:
    """Run the worker, a distribution of its own, in this process's place. Does not return where it is installed.

    The worker runs an application's code. It gets a process without the server's packages, whose names (`proxy`,
    `engine`) the application may use, too.
    """
    if find_spec(_WORKER) is None:
        raise ConsoleError("the worker is not installed here: pip install queuegate-worker")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", _WORKER, *arguments])
