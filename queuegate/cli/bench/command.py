"""`queuegate bench`: a queue of its own, three parts, their results. The queue is dropped, however it ends."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from mysql_client.driver import CONNECTION_LOST
from proxy.os_process import ignore_signals
from queuegate.cli.bench import client_processes
from queuegate.cli.bench.clients import EMPTY_SECONDS, Client, Consumer, Producer, Sender
from queuegate.cli.bench.figures import (
    BenchResult,
    Load,
    delivery_errors,
    latencies,
    result_lines,
    result_object,
    speed,
)
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError, ServerError
from queuegate.cli.names import QueueRef

_STATEMENT_BYTES_MAX = 8 << 20
"""Bodies of one INSERT: half of what a MariaDB server takes in one statement by default (max_allowed_packet)."""

_ANSWER_SECONDS = 120
"""For one statement of the benchmark's own. The longest is to drop what a few minutes have filled."""

_NO_RIGHT = (1044, 1142, 1227)
_UNSETTLED = "SELECT COUNT(*) AS n FROM {} WHERE time_acked IS NULL"


def run(options: argparse.Namespace, target: Target) -> int:
    """Print the figures, or JSON. Exit code 1 where a message was lost or came twice."""
    load = Load(
        options.seconds, options.producers, options.consumers, options.batch, options.size, options.rate
    )  # fmt: skip
    if load.batch * load.size > _STATEMENT_BYTES_MAX:
        most = _STATEMENT_BYTES_MAX >> 20
        raise ConsoleError(f"--batch times --size is more than {most} MB, too much for one INSERT", status=2)
    with _signals_as_exceptions(), _queue(target, load) as name:
        assert name.database is not None
        result = _measure(replace(target, database=name.database), name, load)
    place = {"proxy": str(target), "database": name.database}
    if options.json:
        sys.stdout.write(json.dumps(result_object(result, load, place), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(result_lines(result, load, place)) + "\n")
    return 1 if result.delivery_errors.lost or result.delivery_errors.twice else 0


def _measure(target: Target, name: QueueRef, load: Load) -> BenchResult:
    _report_progress(f"inserting for {load.seconds:g} s")
    producers = client_processes.run(
        target, [Producer(name, load, number) for number in range(load.producers)], load.seconds
    )
    _report_progress(f"receiving for at most {load.seconds:g} s")
    receiving = load.seconds + EMPTY_SECONDS
    consumers = client_processes.run(target, [Consumer(name, load, load.seconds)] * load.consumers, receiving)
    left = _emptied(target, name)
    whole = delivery_errors(producers, consumers, left)
    _report_progress(f"inserting one by one for {load.seconds:g} s")
    # The consumers stay for two more waits: what is sent last has that long to come.
    staying = load.seconds + 2 * EMPTY_SECONDS
    together: list[Client] = [
        *(Sender(name, load, number) for number in range(load.producers)),
        *[Consumer(name, load, staying, stays=True)] * load.consumers,
    ]
    results = client_processes.run(target, together, staying + EMPTY_SECONDS)
    senders, receivers = results[: load.producers], results[load.producers :]
    whole += delivery_errors(senders, receivers, _emptied(target, name))
    from_commit, from_send = latencies(senders, receivers)
    return BenchResult(speed(producers), speed(consumers), left, speed(senders), from_commit, from_send, whole)


def _emptied(target: Target, name: QueueRef) -> int:
    """How many messages the queue had without an ack; it has none afterwards."""
    with Link(target, "bench", _ANSWER_SECONDS) as link:
        left = int(link.rows(_UNSETTLED.format(name.sql))[0]["n"])
        if left:
            link.change(f"TRUNCATE QUEUE {name.sql}")
    return left


@contextmanager
def _queue(target: Target, load: Load) -> Iterator[QueueRef]:
    """A new queue, dropped at the end."""
    table = f"queuegate_bench_{os.getpid()}_{secrets.token_hex(8)}"
    with Link(target, "bench", _ANSWER_SECONDS) as link:
        database = link.rows("SELECT DATABASE() AS name")[0]["name"]
        if database is None:
            raise ConsoleError("bench makes a queue of its own: name the database for it, with -D", status=2)
        name = QueueRef(table, str(database))
        # A lease outlasts the benchmark: what comes twice is a defect, and not a slow client.
        options = f"ack_wait = '1h', batch_size = {load.batch}"
        try:
            link.change(f"CREATE QUEUE {name.sql} (n BIGINT NOT NULL, body MEDIUMTEXT) WITH ({options})")
        except ServerError as error:
            if error.number in _NO_RIGHT:
                raise ConsoleError(
                    f"{error.message}: bench makes a queue of its own and drops it, which user '{target.user}' may not"
                    f" do in database '{QueueRef(str(database))}'; log in as another (-u), or name another"
                    " database (-D)"
                ) from error
            if error.number in {0, *CONNECTION_LOST}:
                _drop(target, name)  # it may be there: the answer is lost
            raise
        except BaseException:
            _drop(target, name)
            raise
    try:
        yield name
    finally:
        _drop(target, name)


def _drop(target: Target, name: QueueRef) -> None:
    """Over a connection of its own: the first one may be in the middle of a statement. Nothing disturbs it."""
    ignore_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        with Link(target, "bench", _ANSWER_SECONDS) as link:
            link.change(f"DROP QUEUE IF EXISTS {name.sql}")
    except (ConsoleError, OSError) as error:
        reason = error.message if isinstance(error, ConsoleError) else str(error)
        raise ConsoleError(f"the queue {name} could not be dropped, so drop it by hand: {reason}") from error


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """SIGTERM and a terminal that is closed unwind as Ctrl-C does. Afterwards all is as it was."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _report_progress(what: str) -> None:
    """Where someone waits for the end at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{what} ...\n")
