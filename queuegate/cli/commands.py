"""The operator's commands by name, and how one is run: its errors are one line, its exit code is the result."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from queuegate.cli import local_commands, peek, queue_commands, top
from queuegate.cli.bench import command as bench
from queuegate.cli.connecting import Target, target_of, with_password
from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import read_name

_CONNECTING: Mapping[str, Callable[[argparse.Namespace, Target], int]] = {  # the names of queues are in `names`
    "status": queue_commands.status,
    "top": top.run,
    "peek": peek.run,
    "redrive": queue_commands.redrive,
    "pause": queue_commands.pause_or_resume,
    "resume": queue_commands.pause_or_resume,
    "purge": queue_commands.purge,
    "bench": bench.run,
}


def run(options: argparse.Namespace) -> int:
    """The exit code of a command: 0 done, 1 it failed, 2 a mistake in the command line or an option file."""
    return guarded(lambda: _run(options))


def run_completion(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """The exit code of `completion`, of this parser."""
    return guarded(lambda: local_commands.completion(parser, options.shell, as_json=options.json))


def _run(options: argparse.Namespace) -> int:
    if options.command == "init":
        return local_commands.init(options)
    if options.command == "work":
        return local_commands.work(options)
    texts = [options.queue] if hasattr(options, "queue") else getattr(options, "queues", [])
    options.names = [read_name(text) for text in texts]
    target = with_password(target_of(options, os.environ, Path.home()))
    return _CONNECTING[options.command](options, target)


def guarded(command: Callable[[], int]) -> int:
    """The exit code of what `command` does; its error is one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names and bodies may contain what the terminal cannot show
    try:
        code = command()
        sys.stdout.flush()
        return code
    except ConsoleError as error:
        sys.stdout.flush()
        sys.stderr.write(f"queuegate: {error.message}\n")
        return error.status
    except UnicodeEncodeError:
        sys.stderr.write("queuegate: a name or an option is not UTF-8\n")
        return 2
    except BrokenPipeError:
        # The reader, such as `head`, has enough. Python would complain when it ends and flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
