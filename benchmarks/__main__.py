"""`make bench` or `python -m benchmarks`: the queue on each backend, and ordinary SQL beside HAProxy; tables or JSON.

The subjects latency, schedule, throughput, drain, fairness and spark are about the queue, on each backend; passthrough
has rivals instead (benchmarks/passthrough.py), and a report of its own. So have topics, steps, rivals, workers, jobs,
vitess, scale and fleet. celery has the brokers of others beside both backends, console the queue with open screens.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import scratch

from benchmarks import drain, fairness, latency, ordered, passthrough, screens, spark, throughput, workers
from benchmarks.jobs import run as jobs
from benchmarks.measure import Measurement, as_json, load, machine, table
from benchmarks.passthrough import PASSTHROUGH
from benchmarks.places import PLACES, Place
from benchmarks.queues import run as rivals
from benchmarks.queues import vitess
from benchmarks.report import (
    BEGIN,
    END,
    FLEET_BEGIN,
    FLEET_END,
    JOBS_BEGIN,
    JOBS_END,
    RIVALS_BEGIN,
    RIVALS_END,
    SCALE_BEGIN,
    SCALE_END,
    STEPS_BEGIN,
    STEPS_END,
    TOPICS_BEGIN,
    TOPICS_END,
    VITESS_BEGIN,
    VITESS_END,
    WORKERS_BEGIN,
    WORKERS_END,
    Report,
)
from benchmarks.scale import fleet, plots
from benchmarks.scale import run as scale
from benchmarks.scale.amounts import QUICK as SCALE_QUICK
from benchmarks.scale.amounts import Amounts as ScaleAmounts
from benchmarks.steps import run as steps
from benchmarks.topics import run as topics

TOPICS, STEPS, RIVALS, SCALE, FLEET = "topics", "steps", "rivals", "scale", "fleet"
CELERY, VITESS, CONSOLE, WORKERS, JOBS = "celery", "vitess", "console", "workers", "jobs"
A = TypeVar("A", steps.Amounts, rivals.Amounts, workers.Amounts, jobs.Amounts, ScaleAmounts)
SUBJECTS = {
    "latency": (
        "From commit to receiver: one message at a time, poll_interval 30 s. 'commit' counts from the return of the\n"
        "INSERT; 'send' from its call, so that it includes the commit's own flush."
    ),
    "schedule": "Lateness of messages scheduled 2 s ahead, one every 20 ms, by the wall clock.",
    "throughput": "Throughput. 'batch' is messages a commit, or messages that are received and acked at once.",
    "drain": (
        "A backlog received and acked by four processes, beside four hand-written SKIP LOCKED consumers in the same\n"
        "run. Medians of several turns; the ratio is taken within each turn."
    ),
    "ordered": (
        "A queue with an order_key, and four proxies before one server, each with two clients that poll for one\n"
        "message and ack it. Medians of several turns; the ratio is taken within each turn."
    ),
    "fairness": (
        "What an attacker with one account and one address costs a client: alone and beside each attack, in turn.\n"
        "A statement's times, and the proxy's CPU for it, which includes what the attack takes. Medians of rounds."
    ),
    "spark": (
        "Spark at local[2]: all columns of a queue read in a batch; messages claimed, read and acked as a stream.\n"
        "Beside Spark's JDBC doing the nearest it can. Medians of several turns; the ratio is taken within each turn."
    ),
}


def main() -> int:
    """Run what was asked for; progress on standard error, the report on standard output."""
    options = _options()
    scratch.use_disk()
    wanted = options.subject or _all()
    if subjects := [subject for subject in wanted if subject in SUBJECTS]:
        _measure_queue(subjects, options)
    parts = options.part or ()
    if PASSTHROUGH in wanted:
        asked = passthrough.Options(parts, options.quick, options.repeats)
        _show(options, lambda: passthrough.run(asked, _tell), BEGIN, END)
    if TOPICS in wanted:
        _show(options, lambda: topics.measure(parts, _amounts(options), _tell), TOPICS_BEGIN, TOPICS_END)
    if STEPS in wanted:
        steps_of = _repeated(steps.QUICK if options.quick else steps.Amounts(), options.repeats)
        backends = options.backend or list(PLACES)
        _show(options, lambda: steps.measure(backends, steps_of, _tell), STEPS_BEGIN, STEPS_END)
    beside = _repeated(rivals.QUICK if options.quick else rivals.Amounts(), options.repeats)
    if RIVALS in wanted:
        _show(options, lambda: rivals.measure(beside, _tell), RIVALS_BEGIN, RIVALS_END)
    if VITESS in wanted:
        _show(options, lambda: vitess.measure(beside, _tell), VITESS_BEGIN, VITESS_END)
    if WORKERS in wanted:
        worked = _repeated(workers.QUICK if options.quick else workers.Amounts(), options.repeats)
        backends = options.backend or list(PLACES)
        _show(options, lambda: workers.measure(backends, worked, parts, _tell), WORKERS_BEGIN, WORKERS_END)
    if JOBS in wanted:
        run = _repeated(jobs.QUICK if options.quick else jobs.Amounts(), options.repeats)
        _show(options, lambda: jobs.measure(run, _tell), JOBS_BEGIN, JOBS_END)
    if CELERY in wanted:
        _measure_celery(options)
    if CONSOLE in wanted:
        _measure_console(options)
    if SCALE in wanted:
        sizes = _scaled(options)
        _show(options, lambda: scale.measure(parts, sizes, _tell), SCALE_BEGIN, SCALE_END, plots.write)
    if FLEET in wanted:
        sizes = _scaled(options)
        _show(options, lambda: scale.measure(parts, sizes, _tell, fleet.PARTS), FLEET_BEGIN, FLEET_END)
    return 0


def _show(
    options: argparse.Namespace,
    measure: Callable[[], Report],
    begin_mark: str,
    end_mark: str,
    write: Callable[[Report, Path, str, str], None] = Report.write_into,
) -> None:
    """Measure, or read an earlier run, and show it; in a document, between the marks."""
    report = measure() if options.earlier is None else Report.from_json(options.earlier.read_text())
    report.show(options.json)
    if options.document is not None:
        write(report, options.document, begin_mark, end_mark)


def _scaled(options: argparse.Namespace) -> ScaleAmounts:
    amounts = _repeated(SCALE_QUICK if options.quick else ScaleAmounts(), options.repeats)
    return replace(amounts, waiting=tuple(options.waiting_rows)) if options.waiting_rows else amounts


def _repeated(amounts: A, repeats: int | None) -> A:
    return amounts if repeats is None else replace(amounts, repeats=repeats)


def _amounts(options: argparse.Namespace) -> topics.Amounts:
    """What was asked for, and else what a quick or a full run takes."""
    asked = {name: getattr(options, name) for name in ("repeats", "behind") if getattr(options, name) is not None}
    return replace(topics.QUICK if options.quick else topics.Amounts(), **asked)


def _all() -> list[str]:
    """Spark is half a gigabyte, topics and rivals need the servers of others, steps take many turns, scale most of an
    hour: they are measured when asked for by name; Spark also where it is installed.
    """
    without = () if importlib.util.find_spec("pyspark") else ("spark",)
    return [subject for subject in [*SUBJECTS, PASSTHROUGH] if subject not in without]


def _measure_queue(subjects: list[str], options: argparse.Namespace) -> None:
    started, load_before = time.monotonic(), load()
    measured: dict[str, list[Measurement]] = {subject: [] for subject in subjects}
    for backend in options.backend or list(PLACES):
        _tell(f"{backend}: starting")
        with PLACES[backend]() as place:
            for subject, found in measured.items():
                _tell(f"{backend}: {subject}")
                found += _run(subject, place, options)
    took = f"{time.monotonic() - started:.0f} s"
    _report(
        measured, {**machine(), "load": f"{load_before} before, {load()} after", "took": took}, as_text=not options.json
    )


def _measure_console(options: argparse.Namespace) -> None:
    load_before, found = load(), list[Measurement]()
    for backend in options.backend or list(PLACES):
        _tell(f"{backend}: {CONSOLE}")
        with PLACES[backend](**screens.CONFIG) as place:
            found += screens.measure(place, options.waiting, options.messages, options.repeats or screens.TURNS)
    facts = {**machine(), "load": f"{load_before} before, {load()} after"}
    if options.json:
        sys.stdout.write(as_json(found, facts) + "\n")
        return
    sys.stdout.write("\n" + "".join(f"{name:8}{value}\n" for name, value in facts.items()) + f"\n{table(found)}\n")


def _measure_celery(options: argparse.Namespace) -> None:
    # Celery is an extra: who measures something else does not need it.
    run = importlib.import_module("benchmarks.celery.run")
    amounts = run.Amounts(options.tasks, run.Amounts().repeats if options.repeats is None else options.repeats)
    found, facts = run.measure(amounts, _tell)
    if options.json:
        sys.stdout.write(as_json(found, facts) + "\n")
        return
    sys.stdout.write("\n" + "".join(f"{name:10}{value}\n" for name, value in facts.items()))
    sys.stdout.write(f"\n{run.WORKERS} workers of one process each; medians of the turns.\n\n{table(found)}\n")


def _tell(progress: str) -> None:
    sys.stderr.write(f"{progress} ...\n")
    sys.stderr.flush()


def _report(measured: Mapping[str, list[Measurement]], facts: Mapping[str, str], *, as_text: bool) -> None:
    if not as_text:
        sys.stdout.write(as_json([m for found in measured.values() for m in found], facts) + "\n")
        return
    sys.stdout.write("\n" + "".join(f"{name:8}{value}\n" for name, value in facts.items()))
    for subject, found in measured.items():
        if found:
            sys.stdout.write(f"\n{SUBJECTS[subject]}\n\n{table(found)}\n")


def _run(subject: str, place: Place, options: argparse.Namespace) -> list[Measurement]:
    if subject == "latency":
        return latency.deliver(place, options.messages)
    if subject == "schedule":
        return latency.schedule(place, min(options.messages, 100))
    if subject == "drain":
        return drain.measure(place, options.waiting) if place.server is not None else []
    if subject == "ordered":
        return ordered.measure(place, options.backlog) if place.server is not None else []
    if subject == "fairness":
        return fairness.measure(place, options.rounds, 1.0, options.attack or fairness.ATTACKS)
    if subject == "spark":
        return spark.measure(place, options.rows, options.waiting)
    return throughput.measure(place, options.backlog)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure queuegate on this machine.")
    every = [*SUBJECTS, PASSTHROUGH, TOPICS, STEPS, RIVALS, WORKERS, JOBS, VITESS, CELERY, CONSOLE, SCALE, FLEET]
    parser.add_argument(
        "subject",
        nargs="*",
        help=f"what to measure: {', '.join(every)}"
        " (default: all but topics, steps, rivals, workers, jobs, vitess, celery, console, scale, fleet)",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help=f"JSON on standard output; of {PASSTHROUGH}, {TOPICS}, {STEPS}, {RIVALS}, {VITESS} and {SCALE} also into a"
        " file",
    )
    queue = parser.add_argument_group("latency, schedule, throughput")
    queue.add_argument("--backend", action="append", choices=list(PLACES), help=f"where, of {STEPS} too (default: all)")
    queue.add_argument("--messages", type=int, default=500, help="messages for latency (default: 500)")
    queue.add_argument("--backlog", type=int, default=20_000, help="messages for throughput (default: 20000)")
    queue.add_argument("--waiting", type=int, default=200_000, help="messages for drain, spark (default: 200000)")
    queue.add_argument("--rounds", type=int, default=5, help="rounds for fairness (default: 5)")
    queue.add_argument("--attack", action="append", choices=fairness.ATTACKS, help="for fairness (default: all)")
    queue.add_argument("--rows", type=int, default=500_000, help="rows that spark reads (default: 500000)")
    _add_reported(parser.add_argument_group(f"{PASSTHROUGH}, {TOPICS}, {STEPS}, {RIVALS}, {VITESS}, {SCALE}"))
    parser.add_argument_group(TOPICS).add_argument(
        "--behind", type=int, help=f"messages of the topic in which groups seek (default: {topics.Amounts().behind})"
    )
    parser.add_argument_group(SCALE).add_argument(
        "--waiting-rows",
        type=int,
        action="append",
        metavar="N",
        help=f"messages that wait, once for each size (default: {', '.join(map(str, ScaleAmounts().waiting))})",
    )
    parser.add_argument_group(CELERY).add_argument(
        "--tasks", type=int, default=10_000, help="tasks that are enqueued and drained (default: 10000)"
    )
    options = parser.parse_args()
    for subject in options.subject:
        if subject not in every:
            parser.error(f"there is no benchmark '{subject}'; choose from {', '.join(every)}")
    if options.waiting_rows and min(options.waiting_rows) < ScaleAmounts().first:
        parser.error(f"--waiting-rows: at least {ScaleAmounts().first:,}, which are drained")
    return options


def _add_reported(group: argparse._ArgumentGroup) -> None:
    names = [*(part.name for part in passthrough.PARTS), *topics.PARTS, *workers.PARTS, *scale.PARTS, *fleet.PARTS]
    group.add_argument("--quick", action="store_true", help="smaller numbers: a minute or two")
    group.add_argument("--part", action="append", choices=names, metavar="PART", help=f"only {', '.join(names)}")
    group.add_argument(
        "--repeats",
        type=int,
        help=f"turns of each (default: {passthrough.REPEATS}, of {STEPS}, {RIVALS} and {VITESS}"
        f" {steps.Amounts().repeats}, of {SCALE} and {FLEET} {ScaleAmounts().repeats})",
    )
    group.add_argument(
        "--document", nargs="?", type=Path, const=passthrough.DOCUMENT, metavar="FILE",
        help="write the tables into this document (default: docs/benchmarks.md) between its marks",
    )  # fmt: skip
    group.add_argument("--from", dest="earlier", type=Path, metavar="JSON", help="show an earlier run, measure nothing")


if __name__ == "__main__":
    sys.exit(main())
