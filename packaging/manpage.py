"""Writes the man page queuegate(1) from the command line's own parser: `python packaging/manpage.py > FILE`.

The page lies in the tree as packaging/man/queuegate.1, which the wheel and the Debian package take along; a test holds
it to be what this program writes. The macros are those of man(7).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FILES = """\
.SH FILES
.TP
.I config.yaml
The configuration where no
.B \\-\\-config
is given, in the working directory.
.B queuegate init
writes one with every key.
.TP
.I /etc/queuegate/config.yaml
The configuration of the Debian package's service.
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
It could not start or go on; one line on standard error says why.
.TP
.B 2
A mistake in the command line or the configuration; each is on a line of its own.
.SH SIGNALS
.TP
.B SIGTERM, SIGINT
No new clients and deliveries; what is under way gets the time of
.IR shutdown_grace .
.TP
.B SIGHUP
The files of the TLS certificate are read again.
.SH SEE ALSO
.BR mysql (1),
.BR systemd.socket (5)
"""


def page(parser: argparse.ArgumentParser) -> str:
    """The man page of a command line."""
    lines = [f'.TH {parser.prog.upper()} 1 "" "{parser.prog}" "User Commands"', ".SH NAME"]
    lines += [f"{parser.prog} \\- {_text(_as_name(parser.description or ''))}", ".SH SYNOPSIS"]
    lines += [f".B {parser.prog}", ".I COMMAND", "[", ".I OPTION", "\\&... ]", ".br"]
    lines += [f".B {parser.prog} \\-\\-version", ".SH DESCRIPTION", _text(parser.description or ""), ".SH OPTIONS"]
    lines += [line for action in _shown(parser) for line in _action(action)]
    lines += [".SH COMMANDS"]
    epilogs: dict[str, str] = {}
    for name, command in _commands(parser):
        lines += [f".SS {parser.prog} {_text(name)}", _text(command.description or "")]
        lines += [line for action in _shown(command) for line in _action(action)]
        if command.epilog:
            epilogs.setdefault(command.epilog, name)
    lines += [".SH NOTES"]
    for epilog in epilogs:
        lines += [".PP", ".nf", *(_text(line) for line in epilog.strip().splitlines()), ".fi"]
    return "\n".join(lines) + "\n" + _FILES


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # argparse has no public way to ask for them
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
            yield action


def _action(action: argparse.Action) -> Iterator[str]:
    yield ".TP"
    value = _value(action)
    if action.option_strings:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
        yield f"{names} \\fI{_text(value)}\\fR" if value else names
    else:
        yield f"\\fI{_text(value)}\\fR"
    # As argparse itself does before it shows a help text.
    yield _text((action.help or "") % {**vars(action), "prog": ""})


def _value(action: argparse.Action) -> str:
    if action.option_strings and action.nargs == 0:
        return ""
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _as_name(text: str) -> str:
    """The line by which apropos(1) finds the page: it begins small and ends without a full stop."""
    return text[:1].lower() + text[1:].rstrip(".")


def _text(text: str) -> str:
    """Text as roff has it: no character of it is taken for a command or for typography."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def main() -> int:
    """Write the page to standard output."""
    sys.path.insert(0, str(ROOT))
    from queuegate.command_line import parser

    sys.stdout.write(page(parser()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
