"""Names of options: the allowed ones for each use, aliases, and the error for an unknown one.

Names are those of Spark's other sources if the meaning is the same (Kafka's, JDBC's, Delta's).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum


class Use(StrEnum):
    """What the options are for."""

    BATCH_READ = "spark.read"
    STREAM_READ = "spark.readStream"
    BATCH_WRITE = "df.write"
    STREAM_WRITE = "df.writeStream"


def allowed(use: Use) -> tuple[str, ...]:
    """The names of the options for a use, without aliases."""
    return _ALLOWED[use]


CONNECTION = (
    "url", "host", "port", "user", "password", "passwordFile", "passwordEnv", "database", "ssl", "sslCa",
    "connectTimeout", "queryTimeout", "queue",
)  # fmt: skip
_READING = (
    "numPartitions",
    "fetchsize",
    "subscribe",
    "subscribePattern",
    "sourceColumn",
    "timesAsTimestamp",
    "columns",
)
_WRITING = ("writeMode", "keyColumn", "batchsize", "routeColumn")
QUEUE_ONLY = ("leaseSeconds", "onLeaseLost", "onUnread", "groupPrefix", "group")
BEGINNING = ("startingOffsets", "startingTimestamp")
ENDING = ("endingOffsets", "endingTimestamp")
TAIL_ONLY = (*BEGINNING, "failOnDataLoss", "minOffsetsPerTrigger", "maxTriggerDelay")
_ALLOWED: Mapping[Use, tuple[str, ...]] = {
    Use.BATCH_READ: (*CONNECTION, *_READING, "includeAcked", "where", *BEGINNING, *ENDING),
    Use.STREAM_READ: (
        *CONNECTION, *_READING, "mode", "maxMessagesPerTrigger", "maxBytesPerTrigger", "pollTimeoutMs",
        *QUEUE_ONLY, *TAIL_ONLY,
    ),
    Use.BATCH_WRITE: (*CONNECTION, *_WRITING, "txnAppId", "txnVersion"),
    Use.STREAM_WRITE: (*CONNECTION, *_WRITING),
}  # fmt: skip
ALIASES = {
    "path": "queue", "subscribe": "queue", "topic": "queue", "maxoffsetspertrigger": "maxmessagespertrigger",
    "minpartitions": "numpartitions", "groupidprefix": "groupprefix",
}  # fmt: skip
"""`subscribe` is an alias of `queue` if it names one; with several it is a separate option."""

SPELLED = {
    "maxoffsetspertrigger": "maxOffsetsPerTrigger", "minpartitions": "minPartitions", "groupidprefix": "groupIdPrefix",
}  # fmt: skip
"""The spelling of aliases in errors; Spark passes them in lower case."""

SEVERAL_WRITTEN = "rows go to one queue or topic, or each to the one that option routeColumn names"
_BY_TIME = "give one time for all topics, by startingTimestamp or endingTimestamp"
_KAFKA_OPTIONS: Mapping[str, str] = {
    "assign": "a topic here has no partitions; name topics by subscribe, and give ids by startingOffsets",
    "startingoffsetsbytimestamp": _BY_TIME,
    "endingoffsetsbytimestamp": _BY_TIME,
    "startingoffsetsbytimestampstrategy": "where no message is that new, a query begins after the last one",
    "includeheaders": "a message has columns, and all of them are read",
    "kafkaconsumer.polltimeoutms": "give pollTimeoutMs",
}
"""Options of Kafka's source that are not offered, and what to do instead."""
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})  # options that Spark passes on to the sink of a stream


_REMOVED = {
    "pushdownpredicate": "Spark 4.2 and 4.3 apply the filters of one action to the next ones of the same load(), and"
    " those of one side of a join or union to the other: wrong rows. Give option where, in SQL",
}
"""Removed options, and why."""


def is_known(name: str, use: Use) -> bool:
    """Whether it is an option for that use, by any of its names."""
    lower = name.lower()
    names = {other.lower() for other in allowed(use)}
    return lower in names or ALIASES.get(lower) in names or (lower in SPARK_OPTIONS and use is Use.STREAM_WRITE)


def unknown_option(name: str, names: Mapping[str, str], uses: Sequence[Use]) -> str:
    """The error text for an unknown option."""
    lower = name.lower()
    if lower in _REMOVED:
        return f"option {name} is not offered: {_REMOVED[lower]}"
    if lower == "where" and Use.STREAM_READ in uses:
        return "option where is for spark.read: a stream acks what it reads, so choose by .where(...) behind load()"
    instead = _KAFKA_OPTIONS.get(lower)
    if lower.startswith("kafka."):
        instead = "host and port say where the proxy is, group which consumer group"
    if instead is not None:
        return f"option {name} of Kafka's source is not offered: {instead}"
    similar = difflib.get_close_matches(lower, names, 1)
    other_uses = [use for use in Use if lower in (other.lower() for other in allowed(use))]
    if other_uses:
        hint = f"it belongs to {' and '.join(other_uses)}"
    else:
        hint = f"did you mean {names[similar[0]]}?" if similar else f"there are {', '.join(sorted(names.values()))}"
    return f"unknown option {name!r} of {' or '.join(uses)}: {hint}"
