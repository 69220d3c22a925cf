"""What parent and child processes tell each other: a socket for states, and shared memory for the next deadline.

The child writes a line of JSON for each change of its state. The parent writes nothing; when it is gone, however it
ended, the child reads the end of the socket and stops.
"""

from __future__ import annotations

import json
import mmap
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from queuegate_worker.hooks import Hooks

ENVIRONMENT = "QUEUEGATE_WORKER_PROCESS"
"""The variable that makes a process a child: the numbers of its two open files."""

EXIT_REPLACE = 75  # EX_TEMPFAIL of sysexits.h
"""The exit code of a child that wants to be replaced, since a task of it does not end."""

RECEIVING, CONNECTING, LEAVING = "receiving", "connecting", "leaving"

_DEADLINE = struct.Struct("=d")  # seconds of the monotonic clock, which all processes share; 0: none


class Parent:
    """A child's link to its parent. The methods may be called from any thread."""

    def __init__(self, states: socket.socket, deadline: mmap.mmap) -> None:
        self._states, self._deadline = states, deadline
        self._lock = threading.Lock()

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str]) -> Parent | None:
        """The parent that started this process; None if none did. Processes that this one starts have none."""
        numbers = environment.pop(ENVIRONMENT, None)
        if not numbers:
            return None
        states, deadline = map(int, numbers.split(","))
        return cls(socket.socket(fileno=states), mmap.mmap(deadline, _DEADLINE.size))

    def state(self, queue: str, state: str) -> None:
        """Report the state of one queue's worker."""
        line = json.dumps({"queue": queue, "state": state}).encode() + b"\n"
        try:
            with self._lock:
                self._states.sendall(line)
        except OSError:
            pass  # the parent is gone, so this process ends

    def deadline(self, seconds: float | None) -> None:
        """Publish when the time of a running task is over next."""
        _DEADLINE.pack_into(self._deadline, 0, seconds or 0.0)

    def on_gone(self, stop: Callable[[], object]) -> None:
        """Have `stop` called when the parent is gone."""

        def wait() -> None:
            try:
                self._states.recv(1)
            except OSError:
                pass
            stop()

        threading.Thread(target=wait, name="queuegate-parent", daemon=True).start()


class StateHooks(Hooks):
    """Reports the state of one queue's worker to the parent, and passes everything on to the application's hooks."""

    def __init__(self, parent: Parent, queue: str, hooks: Hooks) -> None:
        self._parent, self._queue, self._hooks = parent, queue, hooks
        for name in vars(Hooks).keys() - vars(StateHooks).keys():
            if not name.startswith("_"):
                setattr(self, name, getattr(hooks, name))
        parent.state(queue, CONNECTING)

    def receiving(self) -> None:
        """See Hooks."""
        self._parent.state(self._queue, RECEIVING)
        self._hooks.receiving()

    def reconnecting(self, error: BaseException, seconds: float) -> None:
        """See Hooks."""
        self._parent.state(self._queue, CONNECTING)
        self._hooks.reconnecting(error, seconds)


@dataclass
class Link:
    """The parent's side of a child's files. `states`: of each queue's worker, as far as they are known."""

    socket: socket.socket
    memory: mmap.mmap
    states: dict[str, str] = field(default_factory=dict)
    _line: bytes = b""

    def read(self) -> None:
        """Read what has come; does not wait."""
        try:
            while data := self.socket.recv(65536):
                *lines, self._line = (self._line + data).split(b"\n")
                for line in lines:
                    change = json.loads(line)
                    if self.states.get(change["queue"]) != LEAVING:  # which is for good
                        self.states[change["queue"]] = change["state"]
        except (BlockingIOError, ConnectionError):
            pass

    @property
    def deadline(self) -> float | None:
        """When the time of a running task is over next, by the monotonic clock."""
        (seconds,) = _DEADLINE.unpack_from(self.memory, 0)
        return seconds or None

    def close(self) -> None:
        """The child has ended."""
        self.socket.close()
        self.memory.close()


@contextmanager
def new_link() -> Iterator[tuple[Link, tuple[int, int]]]:
    """A link, and the numbers of the files that the child inherits: they are open here until the end of the block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs, tempfile.TemporaryFile() as file:
        file.truncate(_DEADLINE.size)
        yield Link(ours, mmap.mmap(file.fileno(), _DEADLINE.size)), (theirs.fileno(), file.fileno())
