"""The command line as a user meets it: exit codes, one clear line, no traceback, no secret."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pymysql
import pytest

from mysql_client import option_files
from proxy.config import LogFormat, LogLevel
from proxy.login import accounts
from proxy.login.accounts import Account
from queuegate.cli.arguments import CONNECTING, LOG_FORMATS, LOG_LEVELS, PLUGINS, SSL_MODES
from queuegate.command_line import parser
from queuegate_worker.command import add_options

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, cwd: Path = ROOT, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-m", "queuegate", *arguments],
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
        ("bench", "--producers", "0"), ("bench", "--seconds", "601"), ("bench", "--rate", "x"), ("bench", "q"),
        ("bench", "--batch", "10001"), ("top", "--count", "0"),
    ):  # fmt: skip
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr


def test_a_password_that_cannot_be_hashed():
    for text in (b"", b"\n", b"caf\xe9\n"):
        for environment in ({"LC_ALL": "C.UTF-8"}, {"PYTHONIOENCODING": "utf-8:strict"}):
            done = subprocess.run(
                [sys.executable, "-m", "queuegate", "hash-password"],
                cwd=ROOT, env={**os.environ, **environment}, input=text, capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (2, b"") and b"Traceback" not in done.stderr
            assert done.stderr.startswith(b"queuegate: the password is "), done.stderr


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


def test_completion_knows_files_and_new_commands():
    pytest.importorskip("shtab")
    script = run("completion", "bash").stdout
    assert "bench" in script and "--producers" in script
    files = re.findall(r"_shtab_\w+_COMPGEN=(_shtab_compgen_files)", script)
    assert len(files) > 10, "options that take a file complete files"


def test_json_everywhere(tmp_path):
    """Commands without a proxy; those of a proxy are in tests/integration."""
    done = run("check-config", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"command": "check-config", "ok": True, "mistakes": []})
    (tmp_path / "config.yaml").write_text("listen: x\nlimits: {nope: 1}\n")
    done = run("check-config", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["ok"]) == (2, "", False)
    assert [mistake.partition(":")[0] for mistake in found["mistakes"]] == ["listen", "limits.nope"]
    found = json.loads(run("hash-password", "--json", stdin="password\n").stdout)
    assert found["password_hash"] == "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
    found = json.loads(run("init", "new.yaml", "--json", cwd=tmp_path).stdout)
    assert found == {"command": "init", "file": "new.yaml"} and (tmp_path / "new.yaml").exists()
    assert json.loads(run("init", "-", "--json").stdout)["text"] == (ROOT / "config.yaml").read_text()
    if find_spec("shtab"):
        found = json.loads(run("completion", "zsh", "--json").stdout)
        assert found["shell"] == "zsh" and found["script"] == run("completion", "zsh").stdout


def test_every_command_has_json():
    (commands,) = (action.choices for action in parser()._actions if isinstance(action.choices, dict))
    without = [name for name, command in commands.items() if "--json" not in command._option_string_actions]
    assert without == ["work"], "the worker has options of its own"
    worker = argparse.ArgumentParser(add_help=False)
    add_options(worker)
    assert "--json" in worker._option_string_actions


def test_the_worker_connects_by_the_same_options():
    """Those of `queuegate status` and of `queuegate-work`, which are two distributions."""
    (commands,) = (action.choices for action in parser()._actions if isinstance(action.choices, dict))
    worker = argparse.ArgumentParser(add_help=False)
    add_options(worker)
    assert set(commands["status"]._option_string_actions) <= set(worker._option_string_actions)
    for name in CONNECTING:
        assert set(commands["status"]._option_string_actions) <= set(commands[name]._option_string_actions), name


ZSH = "autoload -Uz compinit; compinit -u -d dump;"


def test_completion_without_its_extra(tmp_path):
    (tmp_path / "shtab.py").write_text("raise ImportError")
    done = run("completion", "bash", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1 and "queuegate[completion]" in one_line(done)


PACKAGES = ("queuegate", "console", "proxy", "embedded", "rewriter", "mysql_wire", "engine")
OUR_MODULES = {"queuegate", "queuegate.command_line", "queuegate.cli", "queuegate.cli.arguments"}


@pytest.mark.parametrize(
    ("argument", "ours", "most"),
    [("--version", OUR_MODULES | {"proxy", "proxy.release"}, 170), ("--help", OUR_MODULES, 80)],
)
def test_the_version_and_the_help_wait_for_no_library(argument, ours, most):
    """Modules are counted rather than time. Python itself has some 30 loaded before our first line."""
    program = f"""
import sys, queuegate.command_line
try:
    queuegate.command_line.main([{argument!r}])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stderr.split())
    assert {name for name in loaded if name.partition(".")[0] in PACKAGES} == ours
    assert {name.partition(".")[0] for name in loaded} <= sys.stdlib_module_names | {"__main__", "proxy", "queuegate"}
    assert "asyncio" not in loaded and len(loaded) < most


def test_the_choices_of_options_are_those_of_the_configuration():
    assert [level.value for level in LogLevel] == list(LOG_LEVELS)
    assert [form.value for form in LogFormat] == list(LOG_FORMATS)
    assert (accounts.NATIVE, accounts.CACHING_SHA2) == PLUGINS
    assert option_files.SSL_MODES == SSL_MODES


def test_serving_loads_nothing_of_the_operators_commands():
    program = "import sys, queuegate.command_line, queuegate.process; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("queuegate.cli.")} == {"queuegate.cli.arguments"}
    assert not loaded & {"curses", "shtab"}


def test_serve_with_nothing_configured_in_an_empty_folder(tmp_path):
    """What `make run` does on a fresh machine: the folder of the database is made, a client gets in, Ctrl-C ends it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "queuegate", "serve", "--listen", "127.0.0.1:0"]
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


@pytest.mark.parametrize("name", ["passwd", "folder"])
def test_a_mistyped_path_of_the_database_is_no_file_to_be_closed_to_others(tmp_path, name):
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n" * 50)
    (tmp_path / "folder").mkdir()
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    done = run("serve", "--listen", "127.0.0.1:0", "--backend", f"sqlite:///{tmp_path}/{name}", cwd=tmp_path)
    assert done.returncode == 1 and name in one_line(done) and "chmod" not in done.stderr


def test_make_run_installs_what_serving_needs_and_says_so(tmp_path):
    """The tools of the tests are five times as large; they come with `make test` and `make check`."""
    done = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}/venv", "run"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "packaging/install.py .\n" in done.stdout and "[dev]" not in done.stdout
    assert re.search(r"echo .*Setting up .*MB", done.stdout)


def test_a_word_that_is_nearly_a_command_is_asked_about(tmp_path):
    done = run("stauts", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.rstrip().endswith("did you mean 'status'?")
    assert "did you mean" not in run("xyzzy", cwd=tmp_path).stderr


def test_the_worker_tells_its_version(tmp_path):
    done = run("work", "--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"queuegate-work \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize("path", ["/nonexistent/x.db", "nonexistent/deeper/x.db"])
def test_the_folder_of_a_database_is_not_made(tmp_path, path):
    """But for `data` in the working directory, which the URL that is set at first needs."""
    path = path.replace("/nonexistent", f"{tmp_path}/nonexistent")
    done = run("serve", "--listen", "127.0.0.1:0", "--backend", f"sqlite:///{path}", cwd=tmp_path)
    assert done.returncode == 1
    assert f"the folder '{Path(path).parent}' of the database file is not there; make it" in one_line(done)
    assert list(tmp_path.iterdir()) == []


def test_an_installation_shows_that_it_goes_on(monkeypatch, capfd):
    install = _module("packaging/install.py")
    monkeypatch.setattr(install, "DOT_SECONDS", 0.01)
    slow = "import time; print('Collecting one_thing>=3', flush=True); time.sleep(1); print('no room'); exit(3)"
    assert install._run([sys.executable, "-c", slow]) == 3
    said = capfd.readouterr().err
    assert "one_thing " in said and said.count(". ") > 1
    assert said.endswith("Collecting one_thing>=3\nno room\n\n")


def _module(path: str) -> ModuleType:
    spec = spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
