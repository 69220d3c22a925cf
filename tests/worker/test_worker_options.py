"""Where `queuegate-work` connects: as the operator's commands do, with the same options and the same option files."""

from __future__ import annotations

import argparse
import json
import logging
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queuegate.cli.arguments import add_commands, with_password_prompt
from queuegate.cli.connecting import target_of
from queuegate.cli.failures import ConsoleError
from queuegate_worker import Address, WorkerError
from queuegate_worker.command import JsonLines, add_options, connection_target, main


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser)
    return parser.parse_args(["app:handle", "--queue", "q", *arguments])


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., str | Address]:
    """Where a command line, an option file in the home directory and an environment lead."""

    def make(*arguments: str, file: str | None = None, **environment: str) -> str | Address:
        if file is not None:
            (tmp_path / ".my.cnf").write_text(file)
        return connection_target(options(*arguments), environment, tmp_path)

    return make


FILES = [
    "",
    '[client]\nuser = ann\npassword = "a#b\\\\c"   # in quotes\nport=3306\n'
    "[mysql]\nuser = x\n[queuegate]\nloose_port = 3310\n",
    "[queuegate]\nport=1\n[client]\nport=2\nsocket=/run/s\n",
    "[client]\nsocket=/run/s\ndatabase=shop\n",
    "[client]\nsocket=/run/s\n[queuegate]\nhost=db\n",
    "!include more.cnf\n[client]\nuser=late\n",
    "[queuegate]\n\nprot = 1\n",
    "[client]\nport = x\n",
    "[client]\nuser\n",
    "user = x\n",
    "[client\n",
    "!read x\n",
    "!include .my.cnf\n",
    "[client]\nssl-mode=sometimes\n",
]


@pytest.mark.parametrize("arguments", [(), ("-hdb", "-P9"), ("-uann", "-psecret", "-Dd", "-S/run/t")])
@pytest.mark.parametrize("file", FILES)
def test_files_and_options_are_read_as_the_operators_commands_read_them(place, tmp_path, file, arguments):
    (tmp_path / "more.cnf").write_text("[queuegate]\nuser=included\n")
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(), lambda options: 0)
    theirs = parser.parse_args(with_password_prompt(["status", *arguments]))
    (tmp_path / ".my.cnf").write_text(file)
    try:
        target = target_of(theirs, {"MYSQL_PWD": "p"}, tmp_path)
    except ConsoleError as refused:
        with pytest.raises(WorkerError) as also:
            place(*arguments, MYSQL_PWD="p")
        assert str(also.value).partition(" ")[0] == refused.message.partition(" ")[0], "the same file and line"
        return
    address = place(*arguments, MYSQL_PWD="p")
    found = (address.host, address.port, address.user, address.password, address.database)
    assert found == (target.host, target.port, target.user, target.password, target.database)
    assert address.options.get("unix_socket") == target.socket


def test_a_url_goes_before_the_files_and_options_before_the_urls_variable(place):
    file = "[client]\nhost=of-the-file\n"
    url = "mysql://ann@db/shop"
    assert place("--url", url, file=file) == url
    assert place(file=file, QUEUEGATE_URL=url) == url
    assert place(file=file).host == "of-the-file"
    assert place("-uann", file=file, QUEUEGATE_URL=url) == Address(host="of-the-file", user="ann")
    with pytest.raises(WorkerError, match="leave out"):
        place("--url", url, "-hdb")


def test_nothing_said_is_the_embedded_backend(place):
    assert place() == Address("127.0.0.1", 3307, "root", "", None)


def test_encryption(place, tmp_path):
    assert place("--ssl-mode", "disabled").options == {"ssl_disabled": True}
    assert place("--ssl-mode", "PREFERRED").options == {}
    context = place("--ssl-mode", "required").options["ssl"]
    assert isinstance(context, ssl.SSLContext) and context.verify_mode is ssl.CERT_NONE
    context = place(file="[client]\nssl-mode=verify_ca\n").options["ssl"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    with pytest.raises(WorkerError, match="--ssl-cert"):
        place("--ssl-key", "key.pem")
    with pytest.raises(FileNotFoundError):
        place("--ssl-ca", str(tmp_path / "none.pem"))


def test_a_file_that_anybody_may_write_is_ignored_and_a_named_one_must_be_there(place, tmp_path, capsys):
    (tmp_path / ".my.cnf").write_text("[client]\nuser=mallory\n")
    (tmp_path / ".my.cnf").chmod(0o666)
    assert place() == Address()
    assert "ignored" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError):
        place("--defaults-file", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--defaults-file", "none.cnf"), "none.cnf: No such file"),
        (("--url", "mysql://x", "-hdb"), "leave out the other options"),
        (("-p",), "no terminal to ask"),
        (("--batch", "0"), "batch is 0; it is a whole number from 1 to 10000"),
    ],
)
def test_mistakes_are_one_line(monkeypatch, tmp_path, capsys, arguments, said):
    (tmp_path / "app.py").write_text("def handle(message):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("getpass.getpass", refuse)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    assert main(["app:handle", "--queue", "q", *arguments]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def refuse(prompt: str) -> Any:
    raise EOFError


def test_log_records_as_json_are_one_line_each():
    record = logging.makeLogRecord({"name": "queuegate_worker", "levelname": "WARNING", "msg": "a\n%s", "args": ("b",)})
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["logger"], found["msg"]) == ("warning", "queuegate_worker", "a\nb")


def test_durations_are_numbers_of_seconds_or_have_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    for text, seconds in (("90", 90.0), ("0.5", 0.5), ("500ms", 0.5), ("30s", 30.0), ("1.5m", 90.0), ("1h", 3600.0)):
        assert options("--ack-wait", text, "--grace", text).ack_wait == options("--grace", text).grace == seconds
    for text in ("", "h", "1w", "1 h 5"):
        with pytest.raises(SystemExit):
            options("--ack-wait", text)
        assert "is no duration, such as" in capsys.readouterr().err
