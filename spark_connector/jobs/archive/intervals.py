"""The time intervals of an archive, and the slices that tasks read. Pure.

Times are unix nanoseconds; an interval excludes its start and includes its end, as `archived_until` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_connector.jobs.failures import JobError

DAY_NS = 86_400 * 10**9
BUCKET_NS = 60 * 10**9  # messages are counted by the minute of their ack to cut slices of about equal size
_NAME = re.compile(r"interval=(\d{1,19})-(\d{1,19})")


@dataclass(frozen=True, order=True)
class Interval:
    """Messages with after < time_acked <= until."""

    after: int
    until: int

    @property
    def value(self) -> str:
        """The value in the archive's column `interval`."""
        return f"{self.after}-{self.until}"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"interval={self.value}"


@dataclass(frozen=True)
class Slice:
    """What one task reads: an interval, and about how many messages it has."""

    interval: Interval
    count: int


def named(names: Iterable[str]) -> list[Interval]:
    """The intervals among the names of an archive's folders, in order."""
    matches = (_NAME.fullmatch(name) for name in names)
    return sorted(Interval(int(match[1]), int(match[2])) for match in matches if match)


def uncounted(published: Sequence[Interval], archived_until: int, where: str) -> list[Interval]:
    """The published intervals that are not counted in `archived_until`, because their run ended before, in order.

    Raises JobError if they do not continue from `archived_until`: messages would be archived twice.
    """
    later = [interval for interval in published if interval.until > archived_until]
    at = archived_until
    for interval in later:
        if interval.after != at:
            raise JobError(
                f"{where} holds {interval.name}, but the queue is archived until {at}: archived_until was changed, or "
                "another archive counts for this queue. Move that interval's folder away, or archive into a new folder"
            )
        at = interval.until
    return later


def slices(buckets: Sequence[tuple[int, int]], interval: Interval, size: int) -> list[Slice]:
    """The interval cut into slices of about `size` messages, none across midnight (UTC) unless it is nearly empty.

    `buckets`: the minutes (since 1970) in which messages were acked, in order, and how many. The slices cover the whole
    interval, also its parts without counts.
    """
    result: list[Slice] = []
    begin, count, last = interval.after, 0, interval.after
    for until, more in _pieces(buckets, size):
        if count and begin < last < interval.until and (count + more > size or _day(until) != _day(last)):
            result.append(Slice(Interval(begin, last), count))
            begin, count = last, 0
        count += more
        last = until
    return [*result, Slice(Interval(begin, interval.until), count)]


def _pieces(buckets: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """The last nanosecond of each minute and its count; a minute with many more than `size` is divided into equal parts
    of time."""
    for minute, count in buckets:
        parts = max(1, -(-count // size))
        for part in range(1, parts + 1):
            yield (
                minute * BUCKET_NS + BUCKET_NS * part // parts - 1,
                count * part // parts - count * (part - 1) // parts,
            )


def _day(time_ns: int) -> int:
    return time_ns // DAY_NS


def grouped(of: Sequence[Slice], most: int) -> list[list[Slice]]:
    """The slices in groups of at most `most` messages, at least one slice each: each group is archived as a whole."""
    groups: list[list[Slice]] = []
    count = 0
    for part in of:
        if not groups or count + part.count > most:
            groups.append([])
            count = 0
        groups[-1].append(part)
        count += part.count
    return groups
