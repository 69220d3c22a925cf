"""Option files as the mysql client reads them: groups in brackets, `key = value`, comments, quotes, !include.

Two groups are read: [client], which may contain options of other programs, and [queuegate], which wins and has no
others. Source: MySQL's reference manual, "Using Option Files".
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class OptionFileError(Exception):
    """A file that is not written as option files are, or has an option that is not known."""


OPTIONS = ("host", "port", "user", "password", "database", "socket", "ssl-ca", "ssl-cert", "ssl-key", "ssl-mode")
"""The options that are read."""

SHARED, OWN = "client", "queuegate"

_INCLUDES_MAX = 10  # MySQL's own bound on files that include files
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class FileOption:
    """One option of a file. `value`: None where only its name is there. `location`: file and line, for errors."""

    group: str
    key: str
    value: str | None
    location: str


def read_groups(path: Path, *, must_exist: bool) -> list[dict[str, FileOption]]:
    """The options of [client], and those of [queuegate]. Raises OptionFileError."""
    groups: dict[str, dict[str, FileOption]] = {SHARED: {}, OWN: {}}
    if must_exist or path.exists():
        for option in every_option(path):
            if option.group == OWN and option.key not in OPTIONS:
                known = ", ".join(OPTIONS)
                raise OptionFileError(f"{option.location}: unknown option '{option.key}'; known are {known}")
            if option.key in OPTIONS and option.group in groups:
                groups[option.group][option.key] = option
    return [groups[SHARED], groups[OWN]]


def is_world_writable(path: Path) -> bool:
    """Whether the file is one that MySQL's programs ignore for that reason."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)


def every_option(path: Path, depth: int = 0) -> Iterator[FileOption]:
    """The options of all groups, of included files too. Raises OptionFileError, OSError."""
    if depth > _INCLUDES_MAX:
        raise OptionFileError(f"{path}: more than {_INCLUDES_MAX} files include one another")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise OptionFileError(f"{path}: is not text in UTF-8") from None
    group = ""
    for number, line in enumerate(text.splitlines(), 1):
        line, location = line.strip(), f"{path}:{number}"
        if not line or line[0] in "#;":
            continue
        if line.startswith("!"):
            for included in _included(line, path, location):
                yield from every_option(included, depth + 1)
        elif line.startswith("["):
            match = re.fullmatch(r"\[([^]]*)\]\s*(?:#.*)?", line)
            if match is None:
                raise OptionFileError(f"{location}: a group is written as [name]")
            group = match[1].strip()
        elif not group:
            raise OptionFileError(f"{location}: an option stands before the first [group]")
        else:
            key, equals, value = _uncommented(line).partition("=")
            name = key.strip().lower().replace("_", "-").removeprefix("loose-")
            yield FileOption(group, name, _value(value.strip()) if equals else None, location)


def _included(line: str, path: Path, location: str) -> list[Path]:
    directive, _, name = line.partition(" ")
    target = path.parent / Path(name.strip()).expanduser()
    if directive == "!include" and name:
        return [target]
    if directive == "!includedir" and name:
        return sorted(target.glob("*.cnf"))
    raise OptionFileError(f"{location}: only !include FILE and !includedir FOLDER begin with an exclamation mark")


def _uncommented(line: str) -> str:
    """The line up to a # that is not in quotes."""
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#":
            return line[:at].rstrip()
    return line


def _value(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text)
