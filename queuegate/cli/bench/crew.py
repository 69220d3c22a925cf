"""The processes of a benchmark's clients: they connect, begin at the same moment, and tell what they did.

They are forked, so they know where to connect without a command line that others could read. Whatever ends the
benchmark ends them. Should it be killed, they end by themselves with their part.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from queuegate.cli.bench.clients import Client
from queuegate.cli.bench.figures import Told
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError

_SLACK_SECONDS = 60.0
"""How much longer than its part a client may take, to connect or for its last statement."""

_END_SECONDS = 5.0
_fork = multiprocessing.get_context("fork")


def run(target: Target, clients: Sequence[Client], seconds: float) -> list[Told]:
    """Have them work at the same time, and return what they tell, in their order. Raises ConsoleError for the first
    that fails."""
    members: list[tuple[BaseProcess, Connection]] = []
    try:
        for client in clients:
            ours, theirs = _fork.Pipe()
            process = _fork.Process(
                target=_work, args=(target, client, theirs, [*(line for _, line in members), ours]), daemon=True
            )
            process.start()
            theirs.close()
            members.append((process, ours))
        lines = [line for _, line in members]
        _answers(lines, _SLACK_SECONDS)
        for line in lines:
            line.send(None)
        return [told for told in _answers(lines, seconds + _SLACK_SECONDS) if told is not None]
    except BrokenPipeError:
        raise ConsoleError("a client of the benchmark has ended unexpectedly") from None
    finally:
        for member, line in members:
            line.close()
            member.terminate()
        for member, _ in members:
            member.join(_END_SECONDS)
            if member.is_alive():
                member.kill()


def _answers(lines: Sequence[Connection], seconds: float) -> list[Told | None]:
    """One from each. The first failure ends the waiting."""
    answers: dict[int, Told | None] = {}
    deadline = time.monotonic() + seconds
    while len(answers) < len(lines):
        silent = [line for at, line in enumerate(lines) if at not in answers]
        ready = wait(silent, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ConsoleError(f"a client of the benchmark has not answered for {seconds:.0f} seconds")
        for line in ready:
            assert isinstance(line, Connection)
            try:
                answer = line.recv()
            except EOFError:
                raise ConsoleError("a client of the benchmark has ended unexpectedly") from None
            if isinstance(answer, str):
                raise ConsoleError(answer)
            answers[lines.index(line)] = answer
    return [answers[at] for at in range(len(lines))]


def _work(target: Target, client: Client, line: Connection, inherited: Sequence[Connection]) -> None:
    """The life of a process: connect, say so, wait for the others, work, tell. An error is told as its text.

    `inherited`: the benchmark's ends of lines. As long as one is open here, nobody would hear that the benchmark ended.
    """
    for each in inherited:
        each.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Link(target, "bench", _SLACK_SECONDS) as link:
            line.send(None)
            if not line.poll(2 * _SLACK_SECONDS):
                return  # the benchmark was killed before it began
            line.recv()
            line.send(client.run(link))
    except ConsoleError as error:
        line.send(error.message)
    except (EOFError, BrokenPipeError):
        pass  # the benchmark has ended
    except OSError as error:
        line.send(str(error))
