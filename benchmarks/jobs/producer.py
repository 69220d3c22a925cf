"""The producer's loop, the same for all: jobs that do nothing, or lone ones with a pause before each.

Imported by programs of other Python versions: it needs nothing but Python.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable


def produce(enqueue: Callable[[float | None], object]) -> None:
    """Enqueue as the arguments say: how many, and seconds between two, on average; 0: none, and jobs that do nothing.
    Prints how many seconds it took. `enqueue` gets the time for a lone job."""
    count, pause, chance = int(sys.argv[-2]), float(sys.argv[-1]), random.Random(1)
    began = time.monotonic()
    for _ in range(count):
        if pause:
            time.sleep(pause * chance.uniform(0.75, 1.25))  # not in step with who polls
        enqueue(time.time() if pause else None)
    print(time.monotonic() - began)
