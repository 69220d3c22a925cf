"""ClaimSize: how many messages one claim of a receiver set, or one page of a broadcast, may have. No await here.

The size of a message is not known before it is read. So the first claims are small, and each that leases something
lets the next one have GROWTH times as many, as far as their rows are expected to fit into CLAIM_BYTES_MAX.

Where the rows become large suddenly, the database connection gives up reading at CLAIM_ANSWER_BYTES_MAX, or a tablet of
a Vitess sends none of them; and the database may refuse to lease one of the messages (Refusals). Then the claim has
failed as a whole, and the next one has 1 / GROWTH of its messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import Message, TextValue

CLAIM_MAX = 1000
"""Ids in one claim: the cost per message no longer falls beyond it, and its locks are held for about 30 ms."""

CLAIM_BYTES_MAX = 12 * 1024 * 1024
"""Expected size of the rows of one claim at most: bodies are in memory only between the claim and the socket. Below the
16 MiB that a tablet of a Vitess sends at once, for rows differ in size."""

FIRST_CLAIM_SIZE = 16
"""Messages in the first claim: each of them may be large, and what is read of them is bounded."""

GROWTH = 4
"""By how much a claim may be larger than the one before it. After three of them a small size has been seen often enough
for CLAIM_MAX."""

_SIZE_SAMPLES_MAX = 64  # messages of a claim whose size is read


class ClaimSize:
    """See the module."""

    def __init__(self) -> None:
        self._allowed = FIRST_CLAIM_SIZE
        self._row_bytes = 1.0
        self.careful = False
        """The last claim has failed as a whole: which messages the next one has must be known."""

    @property
    def limit(self) -> int:
        """Messages in the next claim."""
        return min(self._allowed, max(1, int(CLAIM_BYTES_MAX / self._row_bytes)))

    def leased(self, messages: Sequence[Message]) -> None:
        """A claim has leased these.

        Many small claims are as good a reason for a large one as few that are larger each time."""
        if messages:
            self.careful = False
            self.observe(messages)
            self._allowed = min(CLAIM_MAX, self._allowed * GROWTH)

    def observe(self, messages: Sequence[Message]) -> None:
        """Expect rows of this size; the expectation rises at once and falls slowly."""
        if messages:
            some = messages[:: -(-len(messages) // _SIZE_SAMPLES_MAX)]
            self._expect([message.values for message in some])

    def page(self, rows: Sequence[Sequence[TextValue]]) -> None:
        """A page has been read, in which these rows are wanted."""
        if rows:
            self._expect(rows[:: -(-len(rows) // _SIZE_SAMPLES_MAX)])
        self._allowed = min(CLAIM_MAX, self._allowed * GROWTH)

    def _expect(self, rows: Sequence[Sequence[TextValue]]) -> None:
        mean = sum([len(value) for row in rows for value in row if value is not None]) / len(rows)
        self._row_bytes = max(mean, self._row_bytes / 2, 1.0)

    def failed(self, count: int) -> None:
        """A claim of so many messages has failed as a whole, and a smaller one may succeed."""
        self.careful = True
        self._allowed = max(1, min(count, self._allowed) // GROWTH)
