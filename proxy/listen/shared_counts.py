"""SharedCounts: how many clients each worker has, in memory that all workers share.

Rules: every worker has a column of its own and is the only one that writes it, so no lock can be left locked by a
worker that dies. To take a place, a worker first counts itself in and then adds up the columns; above the limit it
counts itself out again. So a limit is exact: two clients at the same moment may both be refused the last place, but
never both get it. The column of a worker that died is cleared by the supervisor.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from enum import IntEnum
from hashlib import blake2b

_CELL_BYTES = 8  # one aligned machine word, which is written and read whole


class Count(IntEnum):
    """What is counted; the number is the cell's place in a column."""

    PRESENT = 0
    """1 while the worker accepts clients."""
    CONNECTIONS = 1
    LOGGING_IN = 2
    LOGIN_FAILURES = 3
    """Logins that failed since the proxy started. It outlives its worker, as the next two do: see `clear`."""
    REFUSED = 4
    """Clients that a limit refused since the proxy started."""
    DEATHS = 5
    """How often the worker died; the supervisor's."""
    PROCESS = 6
    """The number of the worker's process; 0: there is none."""


_CUMULATIVE = (Count.LOGIN_FAILURES, Count.REFUSED, Count.DEATHS)
"""What only grows: a sum over the workers that fell when one died would be read as a proxy that started again."""

_USERS_AT = len(Count)


class SharedCounts:
    """See the module. Made before the workers are; `users_max`: how many users one worker may have at a time."""

    def __init__(self, workers: int = 1, users_max: int = 0) -> None:
        # Half empty, so that a name is found in a step or two.
        self._slots = 1 << (2 * users_max - 1).bit_length() if users_max else 0
        self._stride = _USERS_AT + 2 * self._slots
        self._workers = workers
        self._cells = memoryview(mmap.mmap(-1, workers * self._stride * _CELL_BYTES)).cast("q")

    def of(self, worker: int) -> WorkerCounts:
        """The view of one worker."""
        columns = [self._cells[n * self._stride : (n + 1) * self._stride] for n in range(self._workers)]
        return WorkerCounts(columns, worker, self._slots)

    def clear(self, worker: int) -> None:
        """That worker has died, and its clients with it. What is counted since the proxy started stays."""
        start = worker * self._stride
        cumulative = {what: self._cells[start + what] for what in _CUMULATIVE}
        self._cells[start : start + self._stride] = memoryview(bytes(self._stride * _CELL_BYTES)).cast("q")
        for what, number in cumulative.items():
            self._cells[start + what] = number

    def died(self, worker: int) -> None:
        """That worker died and is to be started again."""
        self._cells[worker * self._stride + Count.DEATHS] += 1


class WorkerCounts:
    """One worker's own column, and sums over all."""

    def __init__(self, columns: list[memoryview], worker: int, slots: int) -> None:
        self._columns = columns
        self._worker = worker
        self._own = columns[worker]
        self._others = [column for number, column in enumerate(columns) if number != worker]
        self._slots = slots

    def acquire(self, what: Count, limit: int) -> bool:
        """Count one more of it, unless all workers together then have more than `limit`."""
        self._own[what] += 1
        if self.total(what) <= limit:
            return True
        self._own[what] -= 1
        return False

    def release(self, what: Count) -> None:
        """One less of it."""
        self._own[what] -= 1

    def add(self, what: Count) -> None:
        """Count one more of what only grows."""
        self._own[what] += 1

    def total(self, what: Count) -> int:
        return sum(column[what] for column in self._columns)

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self._columns)

    @property
    def connections(self) -> int:
        """This worker's."""
        return int(self._own[Count.CONNECTIONS])

    def set_process(self, pid: int) -> None:
        """This worker is there, though it may not accept clients yet."""
        self._own[Count.PROCESS] = pid

    def processes(self) -> dict[int, int]:
        """The processes of the other workers that are there, by the workers' numbers."""
        cells = ((number, column[Count.PROCESS]) for number, column in enumerate(self._columns))
        return {number: pid for number, pid in cells if pid and number != self._worker}

    def set_present(self, present: bool) -> None:
        """Whether this worker accepts clients."""
        self._own[Count.PRESENT] = int(present)

    def fewest_elsewhere(self) -> int | None:
        """The connections of that other present worker which has the fewest; None: there is no other."""
        return min((column[Count.CONNECTIONS] for column in self._others if column[Count.PRESENT]), default=None)

    def acquire_user(self, name: str, limit: int) -> bool:
        """As `acquire`, for one user's connections."""
        digest = _digest(name)
        at = self._place(digest)
        self._own[at] = digest
        self._own[at + 1] += 1
        if sum(self._count(column, digest) for column in self._columns) <= limit:
            return True
        self._own[at + 1] -= 1
        return False

    def release_user(self, name: str) -> None:
        """One connection less of that user."""
        at = self._place(_digest(name))
        self._own[at + 1] -= 1

    # A column's users are a hash table: digest and count, side by side. An entry is never emptied, for a reader of
    # another process may be probing past it; one whose count is 0 may be reused for another name.

    def _place(self, digest: int) -> int:
        """The cell of a digest in our own column, or the cell it may have."""
        free = None
        for at in self._probe(digest):
            if self._own[at] == digest:
                return at
            if self._own[at + 1] == 0 and free is None:
                free = at
            if self._own[at] == 0:
                break
        assert free is not None, "more users than connections"
        return free

    def _count(self, column: memoryview, digest: int) -> int:
        for at in self._probe(digest):
            if column[at] == digest:
                return int(column[at + 1])
            if column[at] == 0:
                break
        return 0

    def _probe(self, digest: int) -> Iterator[int]:
        """The cells where a digest may be, in the order in which they are tried."""
        mask = self._slots - 1
        return (_USERS_AT + 2 * ((digest + step) & mask) for step in range(self._slots))


def _digest(name: str) -> int:
    """64 bits that represent a name; never 0, which marks a cell that was never used."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little") >> 1 or 1
