"""Signals that end a process, sent again and again until it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvloop")

_PROCESS = """
import asyncio
import threading
import uvloop
from proxy.os_process import ENDING, on_signals, then_ignore_them

for _ in range(4):  # the system has any of them take a signal
    threading.Thread(target=threading.Event().wait, daemon=True).start()

async def serve():
    stopping = asyncio.Event()
    on_signals(ENDING, stopping.set)
    print("ready", flush=True)
    await stopping.wait()

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(then_ignore_them(serve()))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_repeat_change_no_exit_code_and_print_nothing(number):
    for _ in range(3):  # each finds a moment without a handler in nine of ten runs, where there is one
        process = subprocess.Popen(
            [sys.executable, "-c", _PROCESS],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            while process.poll() is None:
                process.send_signal(number)
            assert process.stderr is not None
            assert process.stderr.read() == ""
        assert process.returncode == 0
