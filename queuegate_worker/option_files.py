"""Where the command connects, without a URL: its options, and the option files of the mysql client.

Two groups are read: [client], which may hold options of other programs, and [queuegate], which wins and has no others.
The command line wins over both. Source: MySQL's reference manual, "Using Option Files". The server's distribution reads
them in the same way (`queuegate status`); the worker is installed without it, and a test compares the two.
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

from queuegate_worker.address import Address
from queuegate_worker.errors import WorkerError

OPTIONS = ("host", "port", "user", "password", "database", "socket", "ssl-ca", "ssl-cert", "ssl-key", "ssl-mode")
"""The options that are read."""

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")

SHARED, OWN = "client", "queuegate"

_INCLUDES_MAX = 10  # MySQL's own bound on files that include files
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Given:
    """One option as a file has it. `value`: None where only its name is there. `place`: file and line, for errors."""

    group: str
    key: str
    value: str | None
    place: str


def address_of_options(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> Address:
    """What the command line and the option files say together. Raises WorkerError; OSError for a file that cannot be
    read."""
    path = home / ".my.cnf" if options.defaults_file is None else Path(options.defaults_file)
    said: dict[str, Any] = {"password": environment.get("MYSQL_PWD", "")}
    if options.defaults_file is None and anybody_may_write(path):
        sys.stderr.write(f"{path}: anybody may write this file: it is ignored\n")
    else:
        for group in read_groups(path, must_exist=options.defaults_file is not None):
            said = _over(said, {key: _checked(option) for key, option in group.items()})
    given = {key: getattr(options, key.replace("-", "_")) for key in OPTIONS}
    told = {key: value for key, value in given.items() if value is not None}
    said = _over(said, {**told, "password": None} if options.ask_password else told)
    password = _asked() if said["password"] is None else said["password"]
    named = {key: said[key] for key in ("host", "port", "user", "database") if key in said}
    socket = {"unix_socket": said["socket"]} if said.get("socket") else {}
    return Address(**named, password=password, options={**socket, **_encryption(said)})


def told_where(options: argparse.Namespace) -> bool:
    """Whether the command line itself says where to connect, other than by a URL."""
    keys = (*OPTIONS, "defaults-file")
    return options.ask_password or any(getattr(options, key.replace("-", "_")) is not None for key in keys)


def _over(said: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Whoever names a host or a port does not mean the socket of a lower place."""
    elsewhere = ("host" in more or "port" in more) and "socket" not in more
    return {**said, **({"socket": None} if elsewhere else {}), **more}


def _checked(option: Given) -> Any:
    value = option.value
    if option.key == "password":
        return value
    if not value:
        raise WorkerError(f"{option.place}: the option '{option.key}' has no value")
    if option.key == "ssl-mode":
        if value.lower() not in SSL_MODES:
            raise WorkerError(f"{option.place}: {value!r} is no ssl-mode; known are {', '.join(SSL_MODES)}")
        return value.lower()
    return port_of(value, option.place) if option.key == "port" else value


def port_of(text: str, place: str) -> int:
    """Raises WorkerError for what is no port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise WorkerError(f"{place}: {text!r} is no port; it is a number from 1 to 65535")
    return int(text)


def _asked() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # which says that it would be shown as it is typed
            return getpass.getpass("Enter password: ")
    except (EOFError, getpass.GetPassWarning):
        raise WorkerError("there is no terminal to ask for the password at, and none was given") from None


def _encryption(said: Mapping[str, Any]) -> dict[str, Any]:
    """How PyMySQL is to encrypt: the modes of the mysql client."""
    authority, certificate, key = (said.get(f"ssl-{name}") for name in ("ca", "cert", "key"))
    by_default = "verify_identity" if authority else "required" if certificate or key else "preferred"
    mode = said.get("ssl-mode") or by_default
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and by_default == "preferred":
        return {}
    if key and not certificate:
        raise WorkerError("--ssl-key is the key of a certificate: give --ssl-cert too")
    for name in (authority, certificate, key):
        if name is not None:
            with Path(name).open("rb"):
                pass  # OpenSSL does not say which file it is that cannot be read
    try:
        context = ssl.create_default_context(cafile=authority)
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the certificates of servers are often simple
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise WorkerError(f"the certificate or its key cannot be used: {error}") from error
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
    return {"ssl": context}


def read_groups(path: Path, *, must_exist: bool) -> list[dict[str, Given]]:
    """The options of [client], and those of [queuegate]. Raises WorkerError."""
    groups: dict[str, dict[str, Given]] = {SHARED: {}, OWN: {}}
    if must_exist or path.exists():
        for option in _options(path):
            if option.group == OWN and option.key not in OPTIONS:
                known = ", ".join(OPTIONS)
                raise WorkerError(f"{option.place}: unknown option '{option.key}'; known are {known}")
            if option.key in OPTIONS and option.group in groups:
                groups[option.group][option.key] = option
    return [groups[SHARED], groups[OWN]]


def anybody_may_write(path: Path) -> bool:
    """Whether the file is one that MySQL's programs ignore for that reason."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)


def _options(path: Path, depth: int = 0) -> Iterator[Given]:
    if depth > _INCLUDES_MAX:
        raise WorkerError(f"{path}: more than {_INCLUDES_MAX} files include one another")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise WorkerError(f"{path}: is not text in UTF-8") from None
    group = ""
    for number, line in enumerate(text.splitlines(), 1):
        line, place = line.strip(), f"{path}:{number}"
        if not line or line[0] in "#;":
            continue
        if line.startswith("!"):
            for included in _included(line, path, place):
                yield from _options(included, depth + 1)
        elif line.startswith("["):
            found = re.fullmatch(r"\[([^]]*)\]\s*(?:#.*)?", line)
            if found is None:
                raise WorkerError(f"{place}: a group is written as [name]")
            group = found[1].strip()
        elif not group:
            raise WorkerError(f"{place}: an option stands before the first [group]")
        else:
            key, equals, value = _uncommented(line).partition("=")
            name = key.strip().lower().replace("_", "-").removeprefix("loose-")
            yield Given(group, name, _value(value.strip()) if equals else None, place)


def _included(line: str, path: Path, place: str) -> list[Path]:
    word, _, name = line.partition(" ")
    target = path.parent / Path(name.strip()).expanduser()
    if word == "!include" and name:
        return [target]
    if word == "!includedir" and name:
        return sorted(target.glob("*.cnf"))
    raise WorkerError(f"{place}: only !include FILE and !includedir FOLDER begin with an exclamation mark")


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
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)
