"""What an interrupted run of the tests starts does not outlive it: tests/contained.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from servers import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands over orphans")

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
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def _runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _handled(pid: int) -> bool:
    """Whether no SIGINT is pending at the process any more."""
    pending = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Pnd" in line[:7]]
    return all(not int(mask, 16) & 1 << signal.SIGINT - 1 for mask in pending)
