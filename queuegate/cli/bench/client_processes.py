"""The processes of a benchmark's clients: they connect, begin at the same moment, and return their results.

They are forked, so they know where to connect without a command line that others could read. Whatever ends the
benchmark ends them. If it is killed, they end after their part.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from queuegate.cli.bench.clients import Client
from queuegate.cli.bench.figures import ClientResult
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError

_SLACK_SECONDS = 60.0
"""How much longer than its part a client may take, to connect or for its last statement."""

_END_SECONDS = 5.0
_fork = multiprocessing.get_context("fork")


def run(target: Target, clients: Sequence[Client], seconds: float) -> list[ClientResult]:
    """Have them work at the same time, and return their results, in their order. Raises ConsoleError for the first
    that fails."""
    members: list[tuple[BaseProcess, Connection]] = []
    try:
        for client in clients:
            own_end, client_end = _fork.Pipe()
            process = _fork.Process(
                target=_work, args=(target, client, client_end, [*(pipe for _, pipe in members), own_end]), daemon=True
            )
            process.start()
            client_end.close()
            members.append((process, own_end))
        pipes = [pipe for _, pipe in members]
        _answers(pipes, _SLACK_SECONDS)
        for pipe in pipes:
            pipe.send(None)
        return [result for result in _answers(pipes, seconds + _SLACK_SECONDS) if result is not None]
    except BrokenPipeError:
        raise ConsoleError("a client of the benchmark has ended unexpectedly") from None
    finally:
        for member, pipe in members:
            pipe.close()
            member.terminate()
        for member, _ in members:
            member.join(_END_SECONDS)
            if member.is_alive():
                member.kill()


def _answers(pipes: Sequence[Connection], seconds: float) -> list[ClientResult | None]:
    """One from each. The first failure ends the waiting."""
    answers: dict[int, ClientResult | None] = {}
    deadline = time.monotonic() + seconds
    while len(answers) < len(pipes):
        silent = [pipe for at, pipe in enumerate(pipes) if at not in answers]
        ready = wait(silent, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ConsoleError(f"a client of the benchmark has not answered for {seconds:.0f} seconds")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                answer = pipe.recv()
            except EOFError:
                raise ConsoleError("a client of the benchmark has ended unexpectedly") from None
            if isinstance(answer, str):
                raise ConsoleError(answer)
            answers[pipes.index(pipe)] = answer
    return [answers[at] for at in range(len(pipes))]


def _work(target: Target, client: Client, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """The life of a process: connect, report it, wait for the others, work, send the result. An error is sent as its
    text.

    `inherited`: the benchmark's ends of pipes. As long as one is open here, the end of the benchmark would not be
    noticed.
    """
    for each in inherited:
        each.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Link(target, "bench", _SLACK_SECONDS) as link:
            pipe.send(None)
            if not pipe.poll(2 * _SLACK_SECONDS):
                return  # the benchmark was killed before it began
            pipe.recv()
            pipe.send(client.run(link))
    except ConsoleError as error:
        pipe.send(error.message)
    except (EOFError, BrokenPipeError):
        pass  # the benchmark has ended
    except OSError as error:
        pipe.send(str(error))
