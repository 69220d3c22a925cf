"""What a running statement's functions know of their session, and what they tell it back."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, tzinfo


@dataclass(slots=True)
class CallContext:
    """One per statement that runs. `zone` is the session's time zone, `owner` its
    number, `locks` the database's named locks; the counters are the functions' report."""

    zone: tzinfo = UTC
    owner: int = 0
    locks: object = None
    matched: int = 0
    changed: int = 0
    seen: int = 0
    touched_id: int | None = None
    last_insert_id: int | None = None
    killed: bool = False
    wake: threading.Event | None = None

    def kill(self) -> None:
        """End a SLEEP that is running or about to; called from another thread."""
        self.killed = True
        if self.wake is not None:
            self.wake.set()

    def sleep(self, seconds: float) -> bool:
        """Wait; True when ended early."""
        self.wake = threading.Event()
        return self.killed or self.wake.wait(seconds)

    def restart(self) -> None:
        """Forget the report, before a statement or a row is run."""
        self.matched = self.changed = self.seen = 0
        self.touched_id = None
