"""Recent warnings and errors of the processes (`proxy.logs`), and their form in messages."""

from __future__ import annotations

from typing import NamedTuple

from engine.history.writer import own_place
from proxy import logs
from proxy.cluster.questions import Item


class PlacedRecord(NamedTuple):
    """A record, and the process that has logged it: the machine's name and the number of the process."""

    place: str
    record: logs.StoredRecord


def own_records() -> list[PlacedRecord]:
    """Those of this process, the newest first."""
    place = own_place()
    return [PlacedRecord(place, record) for record in logs.recent.newest()]


def record_item(placed: PlacedRecord) -> Item:
    """A record as an item."""
    record = placed.record
    return [placed.place, record.at_ns, record.level, record.logger, record.message, record.details]


def record_of(item: Item) -> PlacedRecord:
    """The inverse of `record_item`. Raises TypeError or ValueError where it is none."""
    place, at_ns, *texts = item
    level, logger, message, details = map(str, texts)
    return PlacedRecord(str(place), logs.StoredRecord(int(at_ns), level, logger, message, details))
