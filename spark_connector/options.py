"""Parses the options that Spark passes, strings by lower-case names, and checks them together.

An unknown option is refused: a typo could otherwise lose messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from spark_connector import option_bounds
from spark_connector.errors import OptionError
from spark_connector.option_bounds import Bound, Several, Span
from spark_connector.option_condition import OPTION, check_single_condition
from spark_connector.option_names import BEGINNING, ENDING, QUEUE_ONLY, TAIL_ONLY, Use, is_known
from spark_connector.option_values import OptionValues

DEFAULT_PORT = 3307  # where `queuegate serve` listens
LEASE_SECONDS = 300.0  # a batch of Spark takes longer than a receiver's 30 s
MESSAGES_PER_TRIGGER = 20_000
_PREFIX_MAX = 100  # the column that stores it has room for a suffix
_GROUP_MAX = 64
_URL_FORM = "option url is mysql://user@host:port/database"
_SIGNS = "signs such as @ : / # ? [ in a password are written %40 %3A %2F %23 %3F %5B"
Mode = Literal["queue", "tail"]


@dataclass(frozen=True)
class Address:
    """The proxy's address, and the account. The password is never shown."""

    host: str
    port: int
    user: str
    password: str
    database: str
    ssl: Literal["disabled", "required", "verify"] = "disabled"
    ssl_ca: str | None = None
    connect_timeout: float = 10.0  # seconds
    query_timeout: float = 300.0  # seconds without a byte from the proxy

    def __repr__(self) -> str:
        return f"Address({self.user}@{self.host}:{self.port}/{self.database})"


@dataclass(frozen=True)
class QueueAddress:
    """A queue or a topic, or several of them, and the address."""

    address: Address
    queue: str  # empty where there are several
    group: str | None = None  # of consumers of the topic `queue`
    several: Several | None = None
    times: bool = False  # as TIMESTAMP
    columns: tuple[str, ...] = ()  # those that are read; empty: all
    where: str | None = None  # a condition of SQL


@dataclass(frozen=True)
class BatchReadOptions:
    """spark.read.format("queuegate")"""

    address: Address
    queue: str
    num_partitions: int
    fetch_size: int  # rows
    include_acked: bool
    where: str | None = None  # a condition of SQL
    columns: tuple[str, ...] = ()  # those that are read; empty: all
    span: Span | None = None  # of a topic's messages; None: no bounds
    several: Several | None = None  # in place of `queue`, which is empty then


@dataclass(frozen=True)
class StreamReadOptions:
    """spark.readStream.format("queuegate")"""

    address: Address
    queue: str
    group: str | None  # of consumers of the topic `queue`; mode=queue
    mode: Mode
    num_partitions: int
    fetch_size: int  # rows
    max_messages: int  # at most in a micro-batch
    max_bytes: int | None  # at most in a micro-batch, unless its first message is larger
    poll_timeout: float  # seconds that latestOffset waits for messages before it answers "nothing new"
    lease: float  # seconds; mode=queue
    on_lease_lost: Literal["redeliver", "fail"]  # mode=queue
    on_unread: Literal["fail", "ack"]  # mode=queue: a micro-batch that is done and that no task has read
    group_prefix: str  # mode=queue: what the names of this query's claims begin with
    starting: Bound  # mode=tail: one of the ends, or an id
    starting_time: int | None  # mode=tail: ns; in its place
    fail_on_data_loss: bool  # mode=tail
    min_messages: int  # mode=tail: a micro-batch waits for so many, 0: for none
    max_delay: float  # mode=tail: seconds that it waits for them
    several: Several | None = None  # in place of `queue`, which is empty then
    columns: tuple[str, ...] = ()  # those that are read; empty: all


@dataclass(frozen=True)
class WriteOptions:
    """df.write.format("queuegate") and df.writeStream.format("queuegate")"""

    address: Address
    queue: str
    mode: Literal["staged", "direct"]
    key: str | None  # the columns that identify a message; they need a unique key in the queue
    batch_size: int  # rows of an INSERT
    transaction: tuple[str, int] | None  # txnAppId and txnVersion: a write that was published is not published again
    route: str | None  # the column that names the queue or topic of each row; `queue` is empty then


def queue_address(options: Mapping[str, str]) -> QueueAddress:
    """The address of the one queue or topic in the options; the reader checks the other options. Raises OptionError."""
    address = source_address(options)
    if address.several is not None:
        raise OptionError(
            "options subscribe with several names, subscribePattern and sourceColumn are for spark.read and"
            " spark.readStream: name one queue or topic by queue or topic"
        )
    return address


def source_address(options: Mapping[str, str]) -> QueueAddress:
    """The same for a batch or stream read, which may have several sources."""
    values = OptionValues(options, Use.BATCH_READ, Use.STREAM_READ)
    several = _several(values)
    return QueueAddress(
        _address(values),
        "" if several else _queue(values),
        _group(values),
        several,
        values.flag("timesAsTimestamp", False),
        _columns(values),
        _where(values),
    )


def batch_read(options: Mapping[str, str]) -> BatchReadOptions:
    """Checks the options of spark.read. Raises OptionError."""
    values = OptionValues(options, Use.BATCH_READ)
    several = _several(values)
    return BatchReadOptions(
        address=_address(values),
        queue="" if several else _queue(values),
        num_partitions=values.integer("numPartitions", 4, 1, 10_000),
        fetch_size=values.integer("fetchsize", 10_000, 1, 1_000_000),
        include_acked=values.flag("includeAcked", False),
        where=_where(values),
        columns=_columns(values),
        span=option_bounds.span(values, several),
        several=several,
    )


def stream_read(options: Mapping[str, str]) -> StreamReadOptions:
    """Checks the options of spark.readStream. Raises OptionError."""
    values = OptionValues(options, Use.STREAM_READ)
    mode, several = _mode(values), _several(values)
    for name in TAIL_ONLY if mode == "queue" else QUEUE_ONLY:
        if values.has(name):
            raise OptionError(f"option {name} has no meaning with mode={mode}: leave it out")
    max_messages = values.integer("maxMessagesPerTrigger", MESSAGES_PER_TRIGGER, 1, option_bounds.MESSAGES_MAX)
    return StreamReadOptions(
        address=_address(values),
        queue="" if several else _queue(values),
        group=_group(values),
        mode=mode,
        num_partitions=values.integer("numPartitions", 4, 1, 10_000),
        fetch_size=values.integer("fetchsize", 10_000, 1, 1_000_000),
        max_messages=max_messages,
        max_bytes=values.size("maxBytesPerTrigger"),
        poll_timeout=values.integer("pollTimeoutMs", 500, 0, 60_000) / 1000,
        lease=values.seconds("leaseSeconds", LEASE_SECONDS, 1.0),
        on_lease_lost="fail"
        if values.choice("onLeaseLost", "redeliver", ("redeliver", "fail")) == "fail"
        else "redeliver",
        on_unread="ack" if values.choice("onUnread", "fail", ("fail", "ack")) == "ack" else "fail",
        group_prefix=_prefix(values),
        starting=option_bounds.starting(values, several),
        starting_time=option_bounds.time(values, "startingTimestamp", "startingOffsets", "where to begin"),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        min_messages=option_bounds.least(values, max_messages),
        max_delay=option_bounds.delay(values),
        several=several,
        columns=_columns(values),
    )


def check(options: Mapping[str, str]) -> None:
    """Checks options before their use is known. Raises OptionError if they are invalid for every possible use. They are
    checked again when they are used."""
    readers: Sequence[tuple[Use, Callable[[Mapping[str, str]], object]]] = (
        (Use.BATCH_READ, batch_read),
        (Use.STREAM_READ, stream_read),
        (Use.BATCH_WRITE, partial(write, use=Use.BATCH_WRITE)),
        (Use.STREAM_WRITE, partial(write, use=Use.STREAM_WRITE)),
    )
    faults = []
    for use, read in readers:
        if not all(is_known(name, use) for name in options):
            continue
        try:
            read(options)
            return
        except OptionError as error:
            faults.append(error)
    if faults:
        raise faults[0]


def write(options: Mapping[str, str], use: Use) -> WriteOptions:
    """Checks the options of df.write or df.writeStream. Raises OptionError."""
    values = OptionValues(options, use)
    mode = values.choice("writeMode", "staged", ("staged", "direct"))
    route = _route(values, mode)
    return WriteOptions(
        address=_address(values),
        queue=_queue(values) if route is None else "",
        mode="direct" if mode == "direct" else "staged",
        key=values.text("keyColumn", "") or None,
        batch_size=values.integer("batchsize", 5000, 1, 100_000),
        transaction=_transaction(values, mode),
        route=route,
    )


def _queue(values: OptionValues) -> str:
    name = values.text("queue", "").strip()
    if not name:
        raise OptionError("option queue is missing: the name of the queue or topic, as in .option('queue', 'orders')")
    return _name(name, values.spelling("queue"))


def _name(text: str, option: str = "subscribe") -> str:
    name = text.strip()
    if not name:
        raise OptionError("option subscribe is names of queues or topics with commas between them, and one is empty")
    if len(name) > 64 or "\0" in name:
        raise OptionError(f"option {option} is the name of a queue, at most 64 characters, not {name[:80]!r}")
    return name


def _mode(values: OptionValues) -> Mode:
    return "tail" if values.choice("mode", "queue", ("queue", "tail")) == "tail" else "queue"


def _several(values: OptionValues) -> Several | None:
    """The sources, if the options name more than one queue or topic, or a source column."""
    if not any(values.has(name) for name in ("subscribe", "subscribePattern", "sourceColumn")):
        return None
    chosen = [name for name in ("queue", "subscribe", "subscribePattern") if values.has(name)]
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(chosen)} both say what to read: give one of them")
    column = values.text("sourceColumn", "topic").strip()
    if not column:
        raise OptionError("option sourceColumn is the name of a column, as in .option('sourceColumn', 'source')")
    starting, ending = (option_bounds.bounds_by_name(values, name) for name in ("startingOffsets", "endingOffsets"))
    if not values.has("subscribePattern"):
        names = (
            [_queue(values)]
            if values.has("queue")
            else [_name(each) for each in values.text("subscribe", "").split(",")]
        )
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise OptionError(f"option subscribe names {twice!r} twice")
        return Several(tuple(names), column=column, starting=starting, ending=ending)
    pattern = values.text("subscribePattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"option subscribePattern is no regular expression: {error}, in {pattern[:80]!r}") from None
    topics = _mode(values) == "tail" or any(values.has(name) for name in ("group", *BEGINNING, *ENDING))
    return Several((), pattern, topics, column, starting, ending)


def _route(values: OptionValues, mode: str) -> str | None:
    if not values.has("routeColumn"):
        return None
    if values.has("queue"):
        raise OptionError("options queue and routeColumn both say where rows go: give one of them")
    if mode != "staged" or values.has("keyColumn"):
        raise OptionError("option routeColumn goes with writeMode=staged, and without keyColumn")
    route = values.text("routeColumn", "").strip()
    if not route:
        raise OptionError("option routeColumn is the name of a column, as in .option('routeColumn', 'target')")
    return route


def _columns(values: OptionValues) -> tuple[str, ...]:
    if not values.has("columns"):
        return ()
    names = tuple(name.strip() for name in values.text("columns", "").split(","))
    if not all(names):
        raise OptionError("option columns is names of columns with commas between them, as in 'id, cents'")
    lower = [name.lower() for name in names]
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise OptionError(f"option columns names {twice!r} twice")
    return names


def _where(values: OptionValues) -> str | None:
    if not values.has("where"):
        return None
    text = values.text("where", "").strip()
    if not text:
        raise OptionError(f"{OPTION}: it is empty")
    check_single_condition(text)
    return text


def _prefix(values: OptionValues) -> str:
    prefix = values.text("groupPrefix", "spark")
    if not 0 < len(prefix) <= _PREFIX_MAX:
        raise OptionError(
            f"option {values.spelling('groupPrefix')} is 1 to {_PREFIX_MAX} characters, not {len(prefix)}"
        )
    return prefix


def _group(values: OptionValues) -> str | None:
    if not values.has("group"):
        return None
    group = values.text("group", "").strip()
    if not group or len(group) > _GROUP_MAX:
        raise OptionError(f"option group is the name of a consumer group, 1 to {_GROUP_MAX} characters, not {group!r}")
    return group


def _transaction(values: OptionValues, mode: str) -> tuple[str, int] | None:
    if not values.has("txnAppId") and not values.has("txnVersion"):
        return None
    if not (values.has("txnAppId") and values.has("txnVersion")):
        raise OptionError("options txnAppId and txnVersion go together: give both or none")
    if mode != "staged":
        raise OptionError("options txnAppId and txnVersion need writeMode=staged: direct rows are visible as they come")
    app = values.text("txnAppId", "")
    if not 0 < len(app) <= 128:
        raise OptionError("option txnAppId is a name of 1 to 128 characters")
    return app, values.integer("txnVersion", 0, 0, 2**63 - 1)


def _address(values: OptionValues) -> Address:
    at = _url(values)
    password = _password(values, at.get("password"))
    ssl = values.choice("ssl", "disabled", ("disabled", "required", "verify"))
    if values.has("sslCa") and ssl != "verify":
        raise OptionError("option sslCa needs ssl=verify")
    for name in ("user", "database"):
        if not at.get(name) and not values.text(name, ""):
            raise OptionError(f"option {name} is missing")
    return Address(
        host=at.get("host") or _host(values),
        port=int(at["port"]) if "port" in at else values.integer("port", DEFAULT_PORT, 1, 65535),
        user=at.get("user") or values.text("user", ""),
        password=password,
        database=at.get("database") or values.text("database", ""),
        ssl="verify" if ssl == "verify" else "required" if ssl == "required" else "disabled",
        ssl_ca=values.text("sslCa", "") or None,
        connect_timeout=values.seconds("connectTimeout", 10.0, 0.1),
        query_timeout=values.seconds("queryTimeout", 300.0, 1.0),
    )


def _host(values: OptionValues) -> str:
    host = values.text("host", "127.0.0.1").strip()
    if not host or any(character in host for character in "/@ "):
        raise OptionError(f"option host is a name or an address, not {host!r}; a port is an option of its own")
    return host


def _url(values: OptionValues) -> dict[str, str]:
    """The parts of mysql://user:password@host:port/database; its parts must not be set by other options as well."""
    text = values.text("url", "")
    if not text:
        return {}
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise OptionError(f"{_URL_FORM}; its port is not a number, or {_SIGNS}") from None
    if parts.scheme != "mysql" or not parts.hostname:
        raise OptionError(f"{_URL_FORM}; a JDBC URL belongs to Spark's format jdbc")
    if parts.query or parts.fragment:
        raise OptionError("option url takes no parameters after the database: use options")
    if "@" in parts.path:
        raise OptionError(f"{_URL_FORM}; {_SIGNS}")
    if port == 0:
        raise OptionError(f"{_URL_FORM}; its port is not 0")
    url_parts = {
        "host": parts.hostname,
        "port": str(port or ""),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")),
    }
    url_parts = {name: value for name, value in url_parts.items() if value}
    for name in url_parts:
        if values.has(name):
            raise OptionError(f"option {name} is given twice: once by itself and once in url")
    return url_parts


def _password(values: OptionValues, in_url: str | None) -> str:
    sources = [name for name in ("password", "passwordFile", "passwordEnv") if values.has(name)]
    if in_url is not None:
        sources.append("url")
    if len(sources) > 1:
        raise OptionError(f"the password is given {len(sources)} times, by {' and '.join(sources)}: give it once")
    if in_url is not None:
        return in_url
    if values.has("passwordFile"):
        return _secret_file(values.text("passwordFile", ""))
    if values.has("passwordEnv"):
        name = values.text("passwordEnv", "")
        if name not in os.environ:
            raise OptionError(
                f"option passwordEnv names the environment variable {name!r}, which is not set on this machine"
            )
        return os.environ[name]
    return values.text("password", "")


def _secret_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option passwordFile names {path!r}, which cannot be read: {error}") from None
