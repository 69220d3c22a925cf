"""`make bench` or `python -m benchmarks`: latency, lateness and throughput on each backend, as a table or as JSON."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping

from benchmarks import latency, throughput
from benchmarks.measure import Measurement, as_json, load, machine, table
from benchmarks.places import PLACES, Place

SUBJECTS = {
    "latency": (
        "From commit to receiver: one message at a time, poll_interval 30 s. 'commit' counts from the return of the\n"
        "INSERT; 'send' from its call, so that it includes the commit's own flush."
    ),
    "schedule": "Lateness of messages scheduled 2 s ahead, one every 20 ms, by the wall clock.",
    "throughput": "Throughput. 'batch' is messages a commit, or messages that are received and acked at once.",
}


def main() -> int:
    """Run what was asked for; progress on standard error, the report on standard output."""
    options = _options()
    started, load_before = time.monotonic(), load()
    measured: dict[str, list[Measurement]] = {subject: [] for subject in options.subject or SUBJECTS}
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
    return 0


def _tell(progress: str) -> None:
    sys.stderr.write(f"{progress} ...\n")
    sys.stderr.flush()


def _report(measured: Mapping[str, list[Measurement]], facts: Mapping[str, str], *, as_text: bool) -> None:
    if not as_text:
        sys.stdout.write(as_json([m for found in measured.values() for m in found], facts) + "\n")
        return
    sys.stdout.write("\n" + "".join(f"{name:8}{value}\n" for name, value in facts.items()))
    for subject, found in measured.items():
        sys.stdout.write(f"\n{SUBJECTS[subject]}\n\n{table(found)}\n")


def _run(subject: str, place: Place, options: argparse.Namespace) -> list[Measurement]:
    if subject == "latency":
        return latency.deliver(place, options.messages)
    if subject == "schedule":
        return latency.schedule(place, min(options.messages, 100))
    return throughput.measure(place, options.backlog)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure queuegate on this machine.")
    parser.add_argument("subject", nargs="*", help=f"what to measure: {', '.join(SUBJECTS)} (default: all)")
    parser.add_argument("--backend", action="append", choices=list(PLACES), help="where (default: all)")
    parser.add_argument("--messages", type=int, default=500, help="messages for latency (default: 500)")
    parser.add_argument("--backlog", type=int, default=20_000, help="messages for throughput (default: 20000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    for subject in options.subject:
        if subject not in SUBJECTS:
            parser.error(f"there is no benchmark '{subject}'; choose from {', '.join(SUBJECTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
