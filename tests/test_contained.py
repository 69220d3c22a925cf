"""What an interrupted run of the tests starts does not outlive it: tests/contained.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from servers import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands over orphans"), pytest.mark.long]

CONTAINED = Path(__file__).with_name("contained.py")
DAEMON = """
import os, subprocess, sys, time
code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code, sys.argv[1]], start_new_session=True)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
print("started", flush=True)
"""


@pytest.fixture
def contained(tmp_path):
    """Starts a program under contained.py that leaves a daemon; yields it and the daemon's number."""
    running: list[subprocess.Popen[str]] = []

    def start(rest: str) -> tuple[subprocess.Popen[str], int]:
        file = tmp_path / "daemon"
        command = [sys.executable, str(CONTAINED), sys.executable, "-c", DAEMON + rest, str(file)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup has it ignored by all of a run
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        return process, int(file.read_text())

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=60)


def test_a_daemon_of_a_session_of_its_own_ends_with_the_run(contained):
    process, daemon = contained("sys.exit(3)")
    assert process.wait(60) == 3
    assert not _runs(daemon)


def test_a_run_that_is_killed_leaves_nothing(contained):
    process, daemon = contained("os.kill(os.getpid(), 9)")
    assert process.wait(60) == 128 + signal.SIGKILL
    assert not _runs(daemon)


def test_a_run_that_is_terminated_is_interrupted_and_leaves_nothing(contained):
    process, daemon = contained("time.sleep(600)")
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "ended 1 processes that were left" in said
    assert not _runs(daemon)


def test_a_second_interruption_ends_what_ignores_the_first(contained):
    process, daemon = contained(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)"
    )
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: _handled(process.pid), 60, "the first interruption to be taken")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGKILL
    assert not _runs(daemon)


def test_the_end_of_the_terminal_leaves_nothing(contained):
    process, daemon = contained("time.sleep(600)")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert not _runs(daemon)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ended", ["Ctrl-C", "SIGTERM to make", "SIGKILL of make", "SIGKILL of pytest", "hang-up"])
def test_an_interrupted_make_test_leaves_nothing(ended, tmp_path):
    """The whole of it: make, pytest with its processes, servers and proxies."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE", "MFLAGS"))
    }
    with (tmp_path / "said").open("wb") as said:
        make = subprocess.Popen(
            ["make", "test", "TESTS=tests/contract/test_stream.py", "JOBS=2"],
            cwd=CONTAINED.parent.parent, env=environment, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    try:
        run = wait_until(lambda: _named(make.pid, "contained.py"), 300, "the tests to be started")
        wait_until(lambda: _named(run, "mariadbd") or _named(run, "mysqld"), 300, "a server of the tests")
        left = _descendants(run)
        assert len(left) > 3
        match ended:
            case "Ctrl-C":
                os.killpg(make.pid, signal.SIGINT)
            case "hang-up":
                os.killpg(make.pid, signal.SIGHUP)
            case "SIGTERM to make":
                make.terminate()
            case "SIGKILL of make":
                make.kill()
            case _:
                os.kill(_named(run, "pytest"), signal.SIGKILL)
        wait_until(lambda: not _runs(run), 120, "the run to end")
        # What was killed may take a moment to end.
        wait_until(lambda: not any(_runs(pid) for pid in left), 20, f"{left} to end; {(tmp_path / 'said').read_text()}")
    finally:
        make.kill()
        make.wait(60)


def _named(root: int, word: str) -> int:
    """The process among those below another that has this word in its command line, the oldest; 0 if there is none."""
    for pid in _descendants(root):
        with contextlib.suppress(OSError):
            if word in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
                return pid
    return 0


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    parents = [root]
    while parents:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{parents[0]}/task/{parents[0]}/children").read_text().split()
            found += map(int, children)
            parents += map(int, children)
        parents.pop(0)
    return found


def _runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _handled(pid: int) -> bool:
    """Whether no SIGINT is pending at the process any more."""
    pending = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Pnd" in line[:7]]
    return all(not int(mask, 16) & 1 << signal.SIGINT - 1 for mask in pending)
