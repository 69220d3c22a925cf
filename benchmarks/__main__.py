"""`make bench` or `python -m benchmarks`: latency, lateness and throughput on each backend, as a table or as JSON."""

from __future__ import annotations

import argparse
import sys

from benchmarks import latency, throughput
from benchmarks.measure import Measurement, as_json, machine, table
from benchmarks.places import PLACES, Place

SUBJECTS = ("latency", "schedule", "throughput")


def main() -> int:
    """Run what was asked for; progress on standard error, the report on standard output."""
    options = _options()
    measured: list[Measurement] = []
    for backend in options.backend or list(PLACES):
        with PLACES[backend]() as place:
            for subject in options.subject or SUBJECTS:
                sys.stderr.write(f"{backend}: {subject} ...\n")
                measured += _run(subject, place, options)
    if options.json:
        sys.stdout.write(as_json(measured) + "\n")
    else:
        for name, value in machine().items():
            sys.stdout.write(f"{name:8}{value}\n")
        sys.stdout.write(f"\n{table(measured)}\n")
    return 0


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
