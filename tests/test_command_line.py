"""The command line as a user meets it: exit codes, one clear line, no traceback, no secret."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

from proxy.login.accounts import Account

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str, cwd: Path = ROOT, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-m", "proxy", *arguments],
        cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one complaint of a command that failed."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    complaints = [line for line in done.stderr.splitlines() if line.startswith("queuegate: ")]
    assert len(complaints) == 1, done.stderr
    return complaints[0]


def test_check_config_ok(tmp_path):
    done = run("check-config", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")
    done = run("check-config", "--config", str(ROOT / "config.yaml"))
    assert (done.returncode, done.stdout) == (0, "OK\n")


def test_check_config_names_all_mistakes(tmp_path):
    (tmp_path / "config.yaml").write_text("listen: x\nlimits: {nope: 1}\n")
    done = run("check-config", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.findall(r"^queuegate: (\S+): ", done.stderr, re.MULTILINE) == ["listen", "limits.nope"]
    done = run("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2


def test_flags_are_checked_too(tmp_path):
    done = run("check-config", "--listen", "0.0.0.0:1", cwd=tmp_path)
    assert done.returncode == 2
    assert "no users" in one_line(done)
    assert run("check-config", "--listen", "0.0.0.0:1", cwd=tmp_path, QUEUEGATE_PASSWORD_ROOT="x").returncode == 0


@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_a_file_that_is_not_there(tmp_path, command):
    done = run(command, "--config", str(tmp_path / "missing.yaml"))
    assert done.returncode == 1
    assert "missing.yaml: No such file" in one_line(done)


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--listen", f"127.0.0.1:{port}", "--backend", f"sqlite:///{tmp_path}/queue.db")
    assert done.returncode == 1
    assert f"127.0.0.1 port {port}" in one_line(done)
    assert "in use" in one_line(done)
    assert len(done.stderr.splitlines()) == 1, "nothing else is said"
    assert list(tmp_path.iterdir()) == [], "no file was made"


def test_a_database_file_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("serve", "--listen", "127.0.0.1:0", "--backend", f"sqlite:///{tmp_path}/file/queue.db")
    assert done.returncode == 1
    assert "file" in one_line(done)


def test_a_database_file_that_is_none(tmp_path):
    (tmp_path / "queue.db").write_text("this is no database\n" * 1000)
    done = run("serve", "--listen", "127.0.0.1:0", "--backend", f"sqlite:///{tmp_path}/queue.db")
    assert done.returncode == 1
    assert one_line(done)


def test_an_unreachable_server(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = run(
        "serve",
        "--listen",
        "127.0.0.1:0",
        cwd=tmp_path,
        QUEUEGATE_BACKEND=f"mysql://root:hunter2@127.0.0.1:{port}/main",
    )
    assert done.returncode == 1
    assert str(port) in one_line(done)
    assert "hunter2" not in done.stderr


def test_version_and_help():
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"queuegate \S.*\n", done.stdout)
    done = run("--help")
    assert done.returncode == 0
    assert {"serve", "check-config", "hash-password"} <= set(re.findall(r"[\w-]+", done.stdout))
    done = run("serve", "--help")
    for flag in ("--config", "--listen", "--backend", "--log-level", "QUEUEGATE_BACKEND"):
        assert flag in done.stdout


def test_mistakes_on_the_command_line_are_2():
    for arguments in (
        (), ("dance",), ("serve", "--port", "1"), ("serve", "--log-level", "loud"), ("status", "--limit", "1"),
        ("peek",),
        ("peek", "q", "--limit", "0"), ("peek", "q", "--state", "x"), ("status", "-P", "0"), ("top", "--interval", "0"),
        ("peek", ""), ("purge", "a."), ("completion", "tcsh"), ("redrive", "q", "--lim", "1"),
    ):  # fmt: skip
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr


def test_hash_password():
    done = run("hash-password", stdin="password\n")
    assert done.stdout == "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\n"
    done = run("hash-password", "--plugin", "caching_sha2_password", stdin="password\n")
    assert Account.with_hash("a", done.stdout.rstrip("\n")).salted.matches(b"password")


def test_init_writes_the_shipped_configuration_and_overwrites_nothing(tmp_path):
    shipped = (ROOT / "config.yaml").read_text()
    assert run("init", cwd=tmp_path).returncode == 0
    assert (tmp_path / "config.yaml").read_text() == shipped
    assert run("check-config", cwd=tmp_path).stdout == "OK\n"
    (tmp_path / "config.yaml").write_text("mine")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 1 and "--force" in one_line(done)
    assert (tmp_path / "config.yaml").read_text() == "mine"
    assert run("init", "--force", "config.yaml", cwd=tmp_path).returncode == 0
    assert (tmp_path / "config.yaml").read_text() == shipped
    assert run("init", "-").stdout == shipped
    assert "No such file" in one_line(run("init", str(tmp_path / "none/x")))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, tmp_path):
    pytest.importorskip("shtab")
    done = run("completion", shell)
    assert done.returncode == 0 and "redrive" in done.stdout and "hash-password" in done.stdout
    if shutil.which(shell):
        (tmp_path / "script").write_text(done.stdout)
        for check in ([shell, "-n", "script"], [shell, "-c", f"{ZSH if shell == 'zsh' else ''} source ./script"]):
            subprocess.run(check, cwd=tmp_path, check=True, timeout=60)


ZSH = "autoload -Uz compinit; compinit -u -d dump;"


def test_completion_without_its_extra(tmp_path):
    (tmp_path / "shtab.py").write_text("raise ImportError")
    done = run("completion", "bash", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1 and "queuegate[completion]" in one_line(done)


def test_serving_loads_nothing_of_the_operators_commands():
    program = "import sys, proxy.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("proxy.console.")} == {"proxy.console.arguments"}
    assert not loaded & {"curses", "shtab"}


def test_serve_with_nothing_configured_in_an_empty_folder(tmp_path):
    """What `make run` does on a fresh machine: the folder of the database is made, a client gets in, Ctrl-C ends it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "proxy", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            port = int(re.search(r"listening on 127\.0\.0\.1:(\d+)", server.stderr.readline())[1])
            with pymysql.connect(host="127.0.0.1", port=port, user="root") as client:
                client.cursor().execute("CREATE QUEUE q (a INT)")
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=30)
    assert server.returncode == 0
    assert (tmp_path / "data" / "queue.db").exists()


def test_make_run_installs_what_serving_needs_and_says_so(tmp_path):
    """The tools of the tests are five times as large; they come with `make test` and `make check`."""
    done = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}/venv", "run"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "packaging/install.py .\n" in done.stdout and "[dev]" not in done.stdout
    assert re.search(r"echo .*Setting up .*MB", done.stdout)
