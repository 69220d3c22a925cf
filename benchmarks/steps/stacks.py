"""Collapsed stacks, as sampling profilers write them: which functions they say the time goes to. Pure.

A line is `frame;frame;frame 12`: a stack from its root to where the thread was, and how often it was found there. The
root of each is the thread, where py-spy was told to name threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]

WAITING = (
    "_worker (concurrent/futures/thread.py",
    "serve (embedded/database/task_thread.py",
    "run (asyncio/runners.py",
    "wait (threading.py",
)
"""Where a thread waits for work, without the names of classes. A profiler that looks whether a thread runs, and then at
its stack, often finds it there."""

_NEARLY_ALL = 0.95  # some stacks of a running thread are read incompletely


def parsed(text: str) -> Counter[Stack]:
    """The samples of each stack. Raises ValueError: a line is none."""
    found: Counter[Stack] = Counter()
    for line in text.splitlines():
        stack, _, number = line.rpartition(" ")
        if not stack or not number.isdigit():
            raise ValueError(f"no collapsed stack: {line!r}")
        found[tuple(stack.split(";"))] += int(number)
    return found


def busy(stacks: Stacks) -> Counter[Stack]:
    """Without those of threads that wait for work."""
    return Counter({stack: number for stack, number in stacks.items() if not _waits(stack[-1])})


def _waits(frame: str) -> bool:
    name, _, place = frame.partition(" ")
    return f"{name.rpartition('.')[2]} {place}".startswith(WAITING)


def own(stacks: Stacks) -> Counter[str]:
    """For each function the samples in itself, not in what it has called."""
    found: Counter[str] = Counter()
    for stack, number in stacks.items():
        found[stack[-1]] += number
    return found


def inclusive(stacks: Stacks) -> Counter[str]:
    """For each function the samples in itself and in what it has called; a recursion counts once.

    Without what nearly all stacks of a thread begin with: that says no more than which thread it is.
    """
    threads: dict[str, dict[Stack, int]] = {}
    for stack, number in stacks.items():
        threads.setdefault(stack[0], {})[stack] = number
    found: Counter[str] = Counter()
    for ours in threads.values():
        stem = _stem(ours)
        for stack, number in ours.items():
            frames = set(stack) - set(stem)
            found.update(dict.fromkeys(frames, number))
    return found


def _stem(stacks: Stacks) -> Stack:
    """The longest beginning of nearly all stacks, in which none of them ends."""
    stem: Stack = ()
    needed = sum(stacks.values()) * _NEARLY_ALL
    while True:
        longer: Counter[Stack] = Counter()
        for stack, number in stacks.items():
            if len(stack) > len(stem) + 1 and stack[: len(stem)] == stem:
                longer[stack[: len(stem) + 1]] += number
        if not longer or (best := longer.most_common(1)[0])[1] < needed:
            return stem
        stem = best[0]


def most(functions: Counter[str], total: int, lines: int) -> Iterator[str]:
    """A table of those with the most samples: per cent of all, samples, function."""
    for function, number in functions.most_common(lines):
        yield f"{number / max(1, total) * 100:6.1f} % {number:8,}  {function}"
