"""`queuegate completion`: the script by which a shell completes the command line, made of its parser by shtab."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from queuegate.cli.failures import ConsoleError

_complete: Callable[..., str] | None
_files: Mapping[str, Any]
try:
    import shtab

    _complete, _files = shtab.complete, shtab.FILE
except ImportError:
    _complete, _files = None, {}  # an extra: no one needs it to serve


def run(parser: argparse.ArgumentParser, shell: str, *, as_json: bool = False) -> int:
    """Print it, or an object that has it."""
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
