"""Names of options: which there are for what, which have other names, and what is said of an unknown one.

Names are those of Spark's other sources where the meaning is the same (Kafka's, JDBC's, Delta's).
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
    """The names of the options there are for a use, without the other names that some have."""
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
"""`subscribe` is another name of `queue` where it names one; with several it is an option of its own."""

SPELLED = {
    "maxoffsetspertrigger": "maxOffsetsPerTrigger", "minpartitions": "minPartitions", "groupidprefix": "groupIdPrefix",
}  # fmt: skip
"""How errors write those other names that Spark hands over in lower case."""

SEVERAL_WRITTEN = "rows go to one queue or topic, or each to the one that option routeColumn names"
_BY_TIME = "give one time for all topics, by startingTimestamp or endingTimestamp"
_OF_KAFKA: Mapping[str, str] = {
    "assign": "a topic here has no partitions; name topics by subscribe, and give ids by startingOffsets",
    "startingoffsetsbytimestamp": _BY_TIME,
    "endingoffsetsbytimestamp": _BY_TIME,
    "startingoffsetsbytimestampstrategy": "where no message is that new, a query begins after the last one",
    "includeheaders": "a message has columns, and all of them are read",
    "kafkaconsumer.polltimeoutms": "give pollTimeoutMs",
}
"""Options of Kafka's source that are not offered, and what to do instead."""
SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # what Spark passes on to the sink of a stream


_GONE = {
    "pushdownpredicate": "Spark 4.2 and 4.3 apply the filters of one action to the next ones of the same load(), and"
    " those of one side of a join or union to the other: wrong rows. Give option where, in SQL",
}
"""Options that there were, and why they are gone."""


def known(name: str, use: Use) -> bool:
    """Whether it is an option for that use, by any of its names."""
    lower = name.lower()
    names = {other.lower() for other in allowed(use)}
    return lower in names or ALIASES.get(lower) in names or (lower in SPARKS_OWN and use is Use.STREAM_WRITE)


def unknown(name: str, names: Mapping[str, str], uses: Sequence[Use]) -> str:
    """What is said of an option that there is not."""
    lower = name.lower()
    if lower in _GONE:
        return f"option {name} is not offered: {_GONE[lower]}"
    if lower == "where" and Use.STREAM_READ in uses:
        return "option where is for spark.read: a stream acks what it reads, so choose by .where(...) behind load()"
    instead = _OF_KAFKA.get(lower)
    if lower.startswith("kafka."):
        instead = "host and port say where the proxy is, group which consumer group"
    if instead is not None:
        return f"option {name} of Kafka's source is not offered: {instead}"
    near = difflib.get_close_matches(lower, names, 1)
    elsewhere = [use for use in Use if lower in (other.lower() for other in allowed(use))]
    if elsewhere:
        hint = f"it belongs to {' and '.join(elsewhere)}"
    else:
        hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(sorted(names.values()))}"
    return f"unknown option {name!r} of {' or '.join(uses)}: {hint}"
