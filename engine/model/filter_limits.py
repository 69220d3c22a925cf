"""FilterLimits: how many different conditions and key ranges the streams of one queue may have, in all and for each
account. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.errors import TooManyFilters
from engine.model.queue import QueueName

FILTERS_MAX = 32
"""Different conditions of one queue's streams: each is polled separately, and has a cache."""

FILTERS_PER_ACCOUNT_MAX = 24
"""Of these, those that one account's streams may add: a quarter is left to others."""

RANGES_MAX = 256
"""Different key ranges of one queue's streams, besides: a commit leads to work for those of its messages alone."""

RANGES_PER_ACCOUNT_MAX = 192
"""Of these, those that one account's streams may add."""


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """See the module."""

    of_queue: int = FILTERS_MAX
    of_account: int = FILTERS_PER_ACCOUNT_MAX

    def check(self, queue: QueueName, conditions: int, user: str, conditions_of_user: int) -> None:
        """Whether one more condition is allowed.

        Args:
            queue: the queue.
            conditions: how many there are.
            user: whose stream would add one.
            conditions_of_user: how many of them the user's streams have.

        Raises:
            TooManyFilters: it is not.
        """
        if conditions >= self.of_queue:
            raise TooManyFilters(
                f"Queue '{queue}' has streams with {self.of_queue} different conditions already;"
                " limits.filters allows no more. Streams with the same condition count once"
            )
        if conditions_of_user >= self.of_account:
            raise TooManyFilters(
                f"User '{user}' has streams with {self.of_account} different conditions on queue"
                f" '{queue}' already; limits.filters_per_account allows no more. Close some, or use the"
                " same condition in several"
            )

    def check_ranges(self, queue: QueueName, ranges: int, user: str, ranges_of_user: int) -> None:
        """Whether one more key range without a condition is allowed; as `check`."""
        if ranges >= RANGES_MAX:
            raise TooManyFilters(f"Queue '{queue}' has streams with {RANGES_MAX} different key ranges already")
        if ranges_of_user >= RANGES_PER_ACCOUNT_MAX:
            raise TooManyFilters(
                f"User '{user}' has streams with {RANGES_PER_ACCOUNT_MAX} different key ranges on queue '{queue}'"
                " already. Close some, or use the same key range in several"
            )
