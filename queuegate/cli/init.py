"""`queuegate init`: the configuration file that comes with the program, with every key, its default and its meaning."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from queuegate.cli.failures import ConsoleError

SHIPPED = Path(__file__).with_name("config.yaml")
"""A link to the one at the top of the repository; in a wheel a copy."""


def run(options: argparse.Namespace) -> int:
    """Write it where it does not overwrite anything."""
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
