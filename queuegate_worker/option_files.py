"""Where the command connects without a URL: its options, and the option files of the mysql client.

Two groups are read: [client], which may contain options of other programs, and [queuegate], which has precedence and
allows no other options. The command line has precedence over both. The operator's commands (`queuegate status`) find
their server the same way; a test compares the two.
"""

from __future__ import annotations

import argparse
import getpass
import ssl
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from queuegate_worker.address import Address
from queuegate_worker.errors import WorkerError
from queuegate_worker.mysql_client.option_files import (
    OPTIONS,
    FileOption,
    OptionFileError,
    is_world_writable,
    read_groups,
)

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")


def address_of_options(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> Address:
    """The address from the command line and the option files. Raises WorkerError; OSError for a file that cannot be
    read."""
    path = home / ".my.cnf" if options.defaults_file is None else Path(options.defaults_file)
    values: dict[str, Any] = {"password": environment.get("MYSQL_PWD", "")}
    if options.defaults_file is None and is_world_writable(path):
        sys.stderr.write(f"{path}: anybody may write this file: it is ignored\n")
    else:
        try:
            groups = read_groups(path, must_exist=options.defaults_file is not None)
        except OptionFileError as error:
            raise WorkerError(str(error)) from None
        for group in groups:
            values = _merged(values, {key: _checked(option) for key, option in group.items()})
    arguments = {key: getattr(options, key.replace("-", "_")) for key in OPTIONS}
    explicit = {key: value for key, value in arguments.items() if value is not None}
    values = _merged(values, {**explicit, "password": None} if options.ask_password else explicit)
    password = _prompt_password() if values["password"] is None else values["password"]
    fields = {key: values[key] for key in ("host", "port", "user", "database") if key in values}
    socket = {"unix_socket": values["socket"]} if values.get("socket") else {}
    return Address(**fields, password=password, options={**socket, **encryption(values)})


def has_connection_options(options: argparse.Namespace) -> bool:
    """Whether the command line contains options for the connection, other than a URL."""
    keys = (*OPTIONS, "defaults-file")
    return options.ask_password or any(getattr(options, key.replace("-", "_")) is not None for key in keys)


def _merged(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides that name a host or a port also remove the socket of the lower level."""
    other_server = ("host" in overrides or "port" in overrides) and "socket" not in overrides
    return {**values, **({"socket": None} if other_server else {}), **overrides}


def _checked(option: FileOption) -> Any:
    value = option.value
    if option.key == "password":
        return value
    if not value:
        raise WorkerError(f"{option.location}: the option '{option.key}' has no value")
    if option.key == "ssl-mode":
        if value.lower() not in SSL_MODES:
            raise WorkerError(f"{option.location}: {value!r} is no ssl-mode; known are {', '.join(SSL_MODES)}")
        return value.lower()
    return port_of(value, option.location) if option.key == "port" else value


def port_of(text: str, location: str) -> int:
    """Raises WorkerError if it is not a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise WorkerError(f"{location}: {text!r} is no port; it is a number from 1 to 65535")
    return int(text)


def _prompt_password() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it means that the password would be echoed
            return getpass.getpass("Enter password: ")
    except (EOFError, getpass.GetPassWarning):
        raise WorkerError("there is no terminal to ask for the password at, and none was given") from None


def encryption(values: Mapping[str, Any]) -> dict[str, Any]:
    """How PyMySQL is to encrypt: the modes of the mysql client. Raises WorkerError; OSError for a file that cannot be
    read."""
    authority, certificate, key = (values.get(f"ssl-{name}") for name in ("ca", "cert", "key"))
    by_default = "verify_identity" if authority else "required" if certificate or key else "preferred"
    mode = values.get("ssl-mode") or by_default
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and by_default == "preferred":
        return {}
    if key and not certificate:
        raise WorkerError("--ssl-key is the key of a certificate: give --ssl-cert too")
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
        raise WorkerError(f"the certificate or its key cannot be used: {error}") from error
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
    return {"ssl": context}
