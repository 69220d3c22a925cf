"""What a running statement's functions know of their session, and what they tell it back."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, tzinfo


@dataclass(slots=True)
class CallContext:
    """One per statement that runs. `zone` is the session's time zone; the counters are the functions' report."""

    zone: tzinfo = UTC
    matched: int = 0
    changed: int = 0
    seen: int = 0
    touched_id: int | None = None
    last_insert_id: int | None = None
    wake: threading.Event = field(default_factory=threading.Event)

    def restart(self) -> None:
        """Forget the report, before a statement or a row is run."""
        self.matched = self.changed = self.seen = 0
        self.touched_id = None
