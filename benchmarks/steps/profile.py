"""`make profile`: in which functions the proxy spends its time under a load, as a flame graph and as two lists.

    python -m benchmarks.steps.profile --backend mariadb --of lone --seconds 15

The sampling profiler is py-spy, the extra `profile`. It stops the proxy for a moment at each sample, so what it says is
shares, not times; the processor time of the threads, which is printed besides, is the kernel's.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.places import PLACES
from benchmarks.steps import flame, stacks
from benchmarks.steps.counters import THREAD_CPU, Counters, Meter, by_thread
from benchmarks.steps.loads import BATCH, WARM_UP, StepQueue, again, inserts, polls
from benchmarks.steps.run import PACE_SECONDS, RATE, queue_at
from benchmarks.topics import crew
from benchmarks.topics.reading import converse, drain

ROOT = Path(__file__).resolve().parent.parent.parent
LINES = 25
_ENDLESS = 10**9
_POLLED_PER_SECOND = 2_000
_DRAINED_PER_SECOND = 10_000  # more than is drained while py-spy looks on

LOADS = {
    "lone": f"a lone message, at most {RATE}/s: INSERT, delivered, ACK",
    "insert": "autocommit INSERTs of one client, without pause, into a queue that nobody receives from",
    "drain": f"one receiver of a backlog, acks of {BATCH}",
    "poll": "one receiver that polls for one message of a backlog, and acks it, again and again",
}


class ProfileFailed(Exception):
    """There is no profile; the message says why and what to do."""


def main() -> int:
    """See the module."""
    options = _options()
    try:
        with (
            PLACES[options.backend]() as place,
            contextlib.closing(Meter(place)) as meter,
            load(options.of, queue_at(place, meter), options.seconds) as client,
        ):
            client.begin()
            before = meter.begin()
            recorded = record(meter.proxy_pid, options.seconds, options.rate, options.output / "profile.txt")
            after = meter.end()
            client.check()
    except ProfileFailed as failed:
        print(f"make profile: {failed}", file=sys.stderr)
        return 1
    title = f"queuegate, {options.backend}: {LOADS[options.of]}"
    picture = options.output / "profile.svg"
    picture.write_text(flame.svg(stacks.busy(recorded), title))
    print("\n".join(_told(title, recorded, before, after, meter.proxy_pid)))
    print(
        f"\n{picture}: the flame graph\n{picture.with_suffix('.txt')}: its collapsed stacks, those that wait included"
    )
    return 0


def load(name: str, queue: StepQueue, seconds: int) -> AbstractContextManager[crew.Clients]:
    """A client that does it until it is ended."""
    if name == "drain":
        messages = seconds * _DRAINED_PER_SECOND
        queue.fill(messages)
        return crew.clients(queue, drain, [("", BATCH, messages)])
    if name == "poll":
        queue.fill(seconds * _POLLED_PER_SECOND)
        return crew.clients(queue, polls, [(_ENDLESS,)])
    queue.fill(0)
    if name == "lone":
        return crew.clients(queue, converse, [("", _ENDLESS, PACE_SECONDS, WARM_UP)])
    return crew.clients(queue, again, [(inserts(queue.table, 1), _ENDLESS, 0.0)])


def record(pid: int, seconds: int, rate: int, output: Path) -> stacks.Stacks:
    """What py-spy finds in that process, for so long, so often a second. Raises ProfileFailed."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        raise ProfileFailed("py-spy is not installed; `make profile` does it, or: pip install '.[profile]'")
    command = [
        program, "record", "--pid", str(pid), "--duration", str(seconds), "--rate", str(rate), "--format", "raw",
        "--function", "--threads", "--output", str(output),
    ]  # fmt: skip
    output.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not output.exists():
        raise ProfileFailed(reason(done.stderr or done.stdout))
    return stacks.parsed(output.read_text())


def reason(said: str) -> str:
    """Why py-spy has failed, from what it said."""
    if "ermission" in said or "not permitted" in said:
        return (
            "py-spy may not look into another process (ptrace). Run it as root, or allow it:"
            " sysctl kernel.yama.ptrace_scope=0; in a container: --cap-add SYS_PTRACE"
        )
    return f"py-spy has failed: {said.strip()}"


def _told(title: str, recorded: stacks.Stacks, before: Counters, after: Counters, pid: int) -> Iterator[str]:
    seconds = after.at - before.at
    yield f"{title}\n"
    for name, values in by_thread(before, after, pid, 1).items():
        yield f"{values[THREAD_CPU] / 1e6 / seconds * 100:6.1f} % of a processor  {name}"
    busy = stacks.busy(recorded)
    total = sum(busy.values())
    yield f"\n{total:,} samples of busy threads, {sum(recorded.values()) - total:,} of threads that waited for work"
    for heading, functions in (("own time", stacks.own(busy)), ("with what they call", stacks.inclusive(busy))):
        yield f"\nThe {LINES} functions with the most time, {heading}:\n"
        yield from stacks.most(functions, total, LINES)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps.profile", description="Profile the proxy.")
    parser.add_argument("--backend", choices=list(PLACES), default="mariadb", help="default: mariadb")
    parser.add_argument("--of", choices=list(LOADS), default="lone", help="the load (default: lone)")
    parser.add_argument("--seconds", type=int, default=15, help="how long (default: 15)")
    parser.add_argument("--rate", type=int, default=400, help="samples a second (default: 400)")
    parser.add_argument("--output", type=Path, default=ROOT, metavar="FOLDER", help="for profile.svg, profile.txt")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
