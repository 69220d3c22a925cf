"""`queuegate init`: the configuration file that comes with the program, with every key, its default and its meaning."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from proxy.console.failures import ConsoleError

SHIPPED = Path(__file__).resolve().parents[2] / "config.yaml"
"""Beside the packages: in a checkout, and in a wheel, which puts it there."""


def run(options: argparse.Namespace) -> int:
    """Write it where it does not overwrite anything."""
    text = SHIPPED.read_text("utf-8")
    if options.file == "-":
        sys.stdout.write(text)
        return 0
    path = Path(options.file)
    try:
        with path.open("w" if options.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConsoleError(f"{path}: is there already; --force overwrites it") from None
    sys.stdout.write(f"{path} is written. `queuegate serve --config {path}` serves with it\n")
    return 0
