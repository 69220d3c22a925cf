"""Where a command connects: command line over [queuegate] over [client], MYSQL_PWD last; mistakes have a place."""

from __future__ import annotations

import argparse

import pytest

from queuegate.cli.arguments import add_commands, with_password_prompt
from queuegate.cli.connecting import Target, target_of
from queuegate.cli.failures import ConsoleError


@pytest.fixture
def target(tmp_path):
    """The target of a command line, an option file in the home directory, and an environment."""

    def make(*arguments: str, file: str | None = None, **environment: str) -> Target:
        if file is not None:
            (tmp_path / ".my.cnf").write_text(file)
        parser = argparse.ArgumentParser()
        add_commands(parser.add_subparsers(), lambda options: 0)
        options = parser.parse_args(with_password_prompt(["status", *arguments]))
        return target_of(options, environment, tmp_path)

    return make


def test_nothing_said_is_the_embedded_backend(target):
    assert target() == Target("127.0.0.1", 3307, "root", "", None, None, None)


def test_the_command_line(target):
    assert target("-hdb", "-P", "1", "-u", "ann", "-ps3cret", "-D", "shop", "--ssl-ca", "ca.pem") == Target(
        "db", 1, "ann", "s3cret", "shop", None, "ca.pem"
    )
    assert target("-S", "/run/x").socket == "/run/x"


@pytest.mark.parametrize("flag", ["-p", "--password"])
def test_a_password_that_is_asked_for_takes_no_queue_for_it(target, flag):
    assert target(flag, "jobs", MYSQL_PWD="x").password is None
    assert target("-px", flag).password is None


def test_attached_passwords(target):
    assert target("-p-x").password == "-x"
    assert target("--password=").password == ""
    assert with_password_prompt(["serve", "-p"]) == ["serve", "-p"]
    assert with_password_prompt(["status", "--", "-p"]) == ["status", "--", "-p"]


def test_groups_and_the_environment(target):
    file = """\
# of all clients
[client]
user = ann
password = "a#b\\\\c"   # in quotes
default-character-set = utf8mb4
port=3306
[mysql]
user = nobody
[queuegate]
loose_port = 3310
ssl_ca = '/etc/ca.pem'
"""
    assert target(file=file, MYSQL_PWD="unused") == Target(
        port=3310, user="ann", password="a#b\\c", ssl_ca="/etc/ca.pem"
    )
    assert target("-u", "bob").user == "bob"
    assert target(file="[client]\nuser=x", MYSQL_PWD="used").password == "used"
    assert target(file="[client]\npassword").password is None


def test_own_group_wins_wherever_it_stands(target):
    assert target(file="[queuegate]\nport=1\n[client]\nport=2\n").port == 1


def test_a_host_means_no_socket_of_a_lower_place(target):
    file = "[client]\nsocket=/run/mysqld.sock\n"
    assert target(file=file).socket == "/run/mysqld.sock"
    assert target("-h", "db").socket is None
    assert target(file=f"{file}[queuegate]\nport=3307\n").socket is None


def test_included_files(target, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.cnf").write_text("[queuegate]\nuser=a\n")
    (tmp_path / "more/b.txt").write_text("[queuegate]\nuser=b\n")
    assert target(file=f"!includedir {tmp_path}/more\n[client]\nhost=h\n") == Target(host="h", user="a")
    assert target(file="!include more/b.txt\n").user == "b"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("[queuegate]\n\nprot = 1\n", ".my.cnf:3: unknown option 'prot'"),
        ("[client]\nport = x\n", ".my.cnf:2: 'x' is no port"),
        ("[client]\nport = 70000\n", "is no port"),
        ("[client]\nhost = db..example\n", "'db..example' is no name: a part of it between dots is empty"),
        ("[client]\nuser\n", "'user' has no value"),
        ("user = x\n", ".my.cnf:1: an option stands before the first [group]"),
        ("[client\n", "a group is written as [name]"),
        ("!read x\n", "!include"),
        ("!include .my.cnf\n", "include one another"),
    ],
)
def test_mistakes_are_named_with_their_place(target, file, said):
    with pytest.raises(ConsoleError) as refused:
        target(file=file)
    assert said in refused.value.message
    assert refused.value.status == 2


def test_a_file_that_is_named_must_be_there_and_replaces_the_other(target, tmp_path):
    with pytest.raises(FileNotFoundError):
        target("--defaults-file", str(tmp_path / "none"))
    (tmp_path / "mine").write_text("[client]\nuser=mine\n")
    assert target("--defaults-file", str(tmp_path / "mine"), file="[client]\nhost=other\n") == Target(user="mine")


def test_a_file_that_anybody_may_write_is_ignored(target, tmp_path, capsys):
    (tmp_path / ".my.cnf").write_text("[client]\nuser=mallory\n")
    (tmp_path / ".my.cnf").chmod(0o666)
    assert target() == Target()
    assert "ignored" in capsys.readouterr().err
