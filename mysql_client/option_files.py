"""Where a program connects, as the mysql client finds it: by its command line, by option files, and how it encrypts.

Option files have groups in brackets, `key = value`, comments, quotes, !include. Two groups are read: [client], which
may contain options of other programs, and [queuegate], which has precedence and allows no other options. The command
line has precedence over both. Source: MySQL's reference manual, "Using Option Files".
"""

from __future__ import annotations

import argparse
import getpass
import re
import ssl
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class OptionFileError(Exception):
    """A file that is not written as option files are, or an option that is not known or cannot be used."""


OPTIONS = ("host", "port", "user", "password", "database", "socket", "ssl-ca", "ssl-cert", "ssl-key", "ssl-mode")
"""The options that are read."""

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")

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


def connection_values(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> dict[str, Any]:
    """The values of OPTIONS that a command line, its option file and MYSQL_PWD give; `password` is None where it is to
    be asked for. Raises OptionFileError; OSError for a file that cannot be read."""
    explicit_file = options.defaults_file is not None
    path = Path(options.defaults_file) if explicit_file else home / ".my.cnf"
    values: dict[str, Any] = {"password": environment.get("MYSQL_PWD", "")}
    if not explicit_file and is_world_writable(path):
        sys.stderr.write(f"{path}: anybody may write this file: it is ignored\n")
    else:
        for group in read_groups(path, must_exist=explicit_file):
            values = _merged(values, {key: _checked(option) for key, option in group.items()})
    arguments = {key: getattr(options, key.replace("-", "_")) for key in OPTIONS}
    explicit = {key: value for key, value in arguments.items() if value is not None}
    return _merged(values, {**explicit, "password": None} if options.ask_password else explicit)


def _merged(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides that name a host or a port also remove the socket of the lower level."""
    other_server = ("host" in overrides or "port" in overrides) and "socket" not in overrides
    return {**values, **({"socket": None} if other_server else {}), **overrides}


def _checked(option: FileOption) -> Any:
    value = option.value
    if option.key == "password":
        return value
    if not value:
        raise OptionFileError(f"{option.location}: the option '{option.key}' has no value")
    if option.key == "ssl-mode":
        if value.lower() not in SSL_MODES:
            raise OptionFileError(f"{option.location}: {value!r} is no ssl-mode; known are {', '.join(SSL_MODES)}")
        return value.lower()
    return port_of(value, option.location) if option.key == "port" else value


def port_of(text: str, location: str) -> int:
    """Raises OptionFileError if it is not a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise OptionFileError(f"{location}: {text!r} is no port; it is a number from 1 to 65535")
    return int(text)


def prompt_password() -> str:
    """The password that a user types. Raises OptionFileError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it means that the password would be echoed
            return getpass.getpass("Enter password: ")
    except (EOFError, getpass.GetPassWarning):
        raise OptionFileError("there is no terminal to ask for the password at, and none was given") from None


def encryption(values: Mapping[str, Any]) -> dict[str, Any]:
    """How PyMySQL is to encrypt: the modes of the mysql client. Raises OptionFileError; OSError for a file that cannot
    be read."""
    authority, certificate, key = (values.get(f"ssl-{name}") for name in ("ca", "cert", "key"))
    by_default = "verify_identity" if authority else "required" if certificate or key else "preferred"
    mode = values.get("ssl-mode") or by_default
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and by_default == "preferred":
        return {}  # where the server offers it, unverified
    if key and not certificate:
        raise OptionFileError("--ssl-key is the key of a certificate: give --ssl-cert too")
    for name in (authority, certificate, key):
        if name is not None:
            with Path(name).open("rb"):
                pass  # OpenSSL does not report which file cannot be read
    try:
        context = ssl.create_default_context(cafile=authority)
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the certificates of servers are often simple
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise OptionFileError(f"the certificate or its key cannot be used: {error}") from error
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
    return {"ssl": context}


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
