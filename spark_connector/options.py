"""Options as Spark hands them over, strings under lower-case names, checked together and made values.

Names are those of Spark's other sources where the meaning is the same (Kafka's, JDBC's, Delta's). An unknown one is
refused: a typo would otherwise cost messages.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit

from spark_connector.errors import OptionError

DEFAULT_PORT = 3307  # where `queuegate serve` listens
LEASE_SECONDS = 300.0  # a batch of Spark takes longer than a receiver's 30 s
MESSAGES_PER_TRIGGER = 20_000
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_EARLIEST_MS = 10**11  # in 1973: who gives a smaller time means seconds
_PREFIX_MAX = 100  # the column that keeps it has room for the rest, too
_SECONDS_MAX = 7 * 86400.0
N = TypeVar("N", int, float)


class Use(StrEnum):
    """What the options are for."""

    BATCH_READ = "spark.read"
    STREAM_READ = "spark.readStream"
    BATCH_WRITE = "df.write"
    STREAM_WRITE = "df.writeStream"


@dataclass(frozen=True)
class Address:
    """Where the proxy is, and who connects. The password is never shown."""

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
    """A queue, and how to get to it."""

    address: Address
    queue: str


@dataclass(frozen=True)
class BatchReadOptions:
    """spark.read.format("queuegate")"""

    address: Address
    queue: str
    num_partitions: int
    fetch_size: int  # rows
    include_acked: bool
    push_down: bool


@dataclass(frozen=True)
class StreamReadOptions:
    """spark.readStream.format("queuegate")"""

    address: Address
    queue: str
    mode: Literal["queue", "tail"]
    num_partitions: int
    fetch_size: int  # rows
    max_messages: int  # at most in a micro-batch
    max_bytes: int | None  # at most in a micro-batch, unless its first message is larger
    poll_timeout: float  # seconds that latestOffset waits for messages before it answers "nothing new"
    lease: float  # seconds; mode=queue
    on_lease_lost: Literal["redeliver", "fail"]  # mode=queue
    group_prefix: str  # mode=queue: what the names of this query's claims begin with
    starting: Literal["earliest", "latest"] | int  # mode=tail: the first id, or one of the ends
    starting_time: int | None  # mode=tail: ns; in its place
    fail_on_data_loss: bool  # mode=tail


@dataclass(frozen=True)
class WriteOptions:
    """df.write.format("queuegate") and df.writeStream.format("queuegate")"""

    address: Address
    queue: str
    mode: Literal["staged", "direct"]
    key: str | None  # the column that tells one message from another; it must be unique in the queue
    batch_size: int  # rows of an INSERT
    transaction: tuple[str, int] | None  # txnAppId and txnVersion: a write that was published is not published again


def allowed(use: Use) -> tuple[str, ...]:
    """The names of the options there are for a use, without the other names that some have."""
    return _ALLOWED[use]


def place(options: Mapping[str, str]) -> QueueAddress:
    """Where the queue is that a read names, be it of a batch or of a stream; its reader checks the rest."""
    given = _Given(options, Use.BATCH_READ, Use.STREAM_READ)
    return QueueAddress(_address(given), _queue(given))


def batch_read(options: Mapping[str, str]) -> BatchReadOptions:
    """Checks the options of spark.read. Raises OptionError."""
    given = _Given(options, Use.BATCH_READ)
    return BatchReadOptions(
        address=_address(given),
        queue=_queue(given),
        num_partitions=given.whole("numPartitions", 4, 1, 10_000),
        fetch_size=given.whole("fetchsize", 10_000, 1, 1_000_000),
        include_acked=given.flag("includeAcked", False),
        push_down=given.flag("pushDownPredicate", False),
    )


def stream_read(options: Mapping[str, str]) -> StreamReadOptions:
    """Checks the options of spark.readStream. Raises OptionError."""
    given = _Given(options, Use.STREAM_READ)
    mode = given.choice("mode", "queue", ("queue", "tail"))
    for name in _TAIL_ONLY if mode == "queue" else _QUEUE_ONLY:
        if given.has(name):
            raise OptionError(f"option {name} has no meaning with mode={mode}: leave it out")
    return StreamReadOptions(
        address=_address(given),
        queue=_queue(given),
        mode="tail" if mode == "tail" else "queue",
        num_partitions=given.whole("numPartitions", 4, 1, 10_000),
        fetch_size=given.whole("fetchsize", 10_000, 1, 1_000_000),
        max_messages=given.whole("maxMessagesPerTrigger", MESSAGES_PER_TRIGGER, 1, 10_000_000),
        max_bytes=given.size("maxBytesPerTrigger"),
        poll_timeout=given.whole("pollTimeoutMs", 500, 0, 60_000) / 1000,
        lease=given.seconds("leaseSeconds", LEASE_SECONDS, 1.0),
        on_lease_lost="fail"
        if given.choice("onLeaseLost", "redeliver", ("redeliver", "fail")) == "fail"
        else "redeliver",
        group_prefix=_prefix(given),
        starting=_starting(given),
        starting_time=_starting_time(given),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
    )


def write(options: Mapping[str, str], use: Use) -> WriteOptions:
    """Checks the options of df.write or df.writeStream. Raises OptionError."""
    given = _Given(options, use)
    mode = given.choice("writeMode", "staged", ("staged", "direct"))
    return WriteOptions(
        address=_address(given),
        queue=_queue(given),
        mode="direct" if mode == "direct" else "staged",
        key=given.text("keyColumn", "") or None,
        batch_size=given.whole("batchsize", 5000, 1, 100_000),
        transaction=_transaction(given, mode),
    )


_CONNECTION = (
    "url", "host", "port", "user", "password", "passwordFile", "passwordEnv", "database", "ssl", "sslCa",
    "connectTimeout", "queryTimeout", "queue",
)  # fmt: skip
_READING = ("numPartitions", "fetchsize")
_QUEUE_ONLY = ("leaseSeconds", "onLeaseLost", "groupPrefix")
_TAIL_ONLY = ("startingOffsets", "startingTimestamp", "failOnDataLoss")
_ALLOWED: Mapping[Use, tuple[str, ...]] = {
    Use.BATCH_READ: (*_CONNECTION, *_READING, "includeAcked", "pushDownPredicate"),
    Use.STREAM_READ: (
        *_CONNECTION, *_READING, "mode", "maxMessagesPerTrigger", "maxBytesPerTrigger", "pollTimeoutMs",
        *_QUEUE_ONLY, *_TAIL_ONLY,
    ),
    Use.BATCH_WRITE: (*_CONNECTION, "writeMode", "keyColumn", "batchsize", "txnAppId", "txnVersion"),
    Use.STREAM_WRITE: (*_CONNECTION, "writeMode", "keyColumn", "batchsize"),
}  # fmt: skip
_ALIASES = {"path": "queue", "subscribe": "queue", "topic": "queue", "maxoffsetspertrigger": "maxmessagespertrigger"}
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # what Spark passes on to the sink of a stream


class _Given:
    """The options that were given, each under its lower-case name, known to be allowed."""

    def __init__(self, options: Mapping[str, str], *uses: Use) -> None:
        names = {name.lower(): name for use in uses for name in allowed(use)}
        self._values: dict[str, str] = {}
        for name, value in options.items():
            lower = name.lower()
            if lower in _SPARKS_OWN and Use.STREAM_WRITE in uses:
                continue
            key = _ALIASES.get(lower, lower)
            if key not in names:
                raise OptionError(_unknown(name, names, uses))
            if self._values.setdefault(key, value) != value:
                raise OptionError(f"option {names[key]} is given twice, with different values")

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name} is true or false, not {value!r}")
        return value == "true"

    def choice(self, name: str, default: str, values: Sequence[str]) -> str:
        value = self.text(name, default).strip().lower()
        if value not in values:
            raise OptionError(f"option {name} is one of {', '.join(values)}, not {value!r}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        return _bounded(name, self.text(name, str(default)), int, (least, most), "a whole number")

    def size(self, name: str) -> int | None:
        """Bytes, as in 500000, 64k, 10m or 1g; None where it is not given."""
        if not self.has(name):
            return None
        text = self.text(name, "").strip().lower().removesuffix("b")
        unit = _UNITS.get(text[-1:], 1)
        return (
            _bounded(
                name, text[:-1] if unit > 1 else text, int, (1, 2**40), "a number of bytes, as in 500000, 64k or 10m"
            )
            * unit
        )

    def seconds(self, name: str, default: float, least: float) -> float:
        return _bounded(name, self.text(name, str(default)), float, (least, _SECONDS_MAX), "a number of seconds")


def _bounded(name: str, text: str, read: Callable[[str], N], bounds: tuple[N, N], what: str) -> N:
    try:
        value = read(text.strip().replace("_", "?"))  # which Python takes for a digit's neighbour
    except ValueError:
        raise OptionError(f"option {name} is {what}, not {text!r}") from None
    if not bounds[0] <= value <= bounds[1]:
        raise OptionError(f"option {name} is {what} from {_plain(bounds[0])} to {_plain(bounds[1])}, not {text}")
    return value


def _plain(bound: float) -> str:
    return f"{bound:d}" if isinstance(bound, int) else f"{bound:g}"


def _unknown(name: str, names: Mapping[str, str], uses: Sequence[Use]) -> str:
    near = difflib.get_close_matches(name.lower(), names, 1)
    elsewhere = [use for use in Use if name.lower() in (other.lower() for other in allowed(use))]
    if elsewhere:
        hint = f"it belongs to {' and '.join(elsewhere)}"
    else:
        hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(sorted(names.values()))}"
    return f"unknown option {name!r} of {' or '.join(uses)}: {hint}"


def _queue(given: _Given) -> str:
    name = given.text("queue", "").strip()
    if not name:
        raise OptionError("option queue is missing: the queue's name, as in .option('queue', 'orders')")
    if len(name) > 64 or "\0" in name:
        raise OptionError(f"option queue is the name of a queue, at most 64 characters, not {name[:80]!r}")
    return name


def _prefix(given: _Given) -> str:
    prefix = given.text("groupPrefix", "spark")
    if not 0 < len(prefix) <= _PREFIX_MAX:
        raise OptionError(f"option groupPrefix is 1 to {_PREFIX_MAX} characters, not {len(prefix)}")
    return prefix


def _starting(given: _Given) -> Literal["earliest", "latest"] | int:
    text = given.text("startingOffsets", "latest").strip().lower()
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if text.isdecimal():
        return int(text)
    raise OptionError(f"option startingOffsets is earliest, latest, or the id to begin after, not {text!r}")


def _starting_time(given: _Given) -> int | None:
    if not given.has("startingTimestamp"):
        return None
    if given.has("startingOffsets"):
        raise OptionError("options startingOffsets and startingTimestamp both say where to begin: give one of them")
    text = given.text("startingTimestamp", "")
    bounds = (_EARLIEST_MS, 9_000_000_000_000)
    return 1_000_000 * _bounded("startingTimestamp", text, int, bounds, "a unix time in milliseconds, a whole number")


def _transaction(given: _Given, mode: str) -> tuple[str, int] | None:
    if not given.has("txnAppId") and not given.has("txnVersion"):
        return None
    if not (given.has("txnAppId") and given.has("txnVersion")):
        raise OptionError("options txnAppId and txnVersion go together: give both or none")
    if mode != "staged":
        raise OptionError("options txnAppId and txnVersion need writeMode=staged: direct rows are visible as they come")
    app = given.text("txnAppId", "")
    if not 0 < len(app) <= 128:
        raise OptionError("option txnAppId is a name of 1 to 128 characters")
    return app, given.whole("txnVersion", 0, 0, 2**63 - 1)


def _address(given: _Given) -> Address:
    at = _url(given)
    password = _password(given, at.get("password"))
    ssl = given.choice("ssl", "disabled", ("disabled", "required", "verify"))
    if given.has("sslCa") and ssl != "verify":
        raise OptionError("option sslCa needs ssl=verify")
    for name in ("user", "database"):
        if not at.get(name) and not given.text(name, ""):
            raise OptionError(f"option {name} is missing")
    return Address(
        host=at.get("host") or _host(given),
        port=int(at["port"]) if "port" in at else given.whole("port", DEFAULT_PORT, 1, 65535),
        user=at.get("user") or given.text("user", ""),
        password=password,
        database=at.get("database") or given.text("database", ""),
        ssl="verify" if ssl == "verify" else "required" if ssl == "required" else "disabled",
        ssl_ca=given.text("sslCa", "") or None,
        connect_timeout=given.seconds("connectTimeout", 10.0, 0.1),
        query_timeout=given.seconds("queryTimeout", 300.0, 1.0),
    )


def _host(given: _Given) -> str:
    host = given.text("host", "127.0.0.1").strip()
    if not host or any(character in host for character in "/@ "):
        raise OptionError(f"option host is a name or an address, not {host!r}; a port is an option of its own")
    return host


def _url(given: _Given) -> dict[str, str]:
    """The parts of mysql://user:password@host:port/database; what it names must not be given again."""
    text = given.text("url", "")
    if not text:
        return {}
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise OptionError("option url is mysql://user@host:port/database; its port is not a number") from None
    if parts.scheme != "mysql" or not parts.hostname:
        raise OptionError("option url is mysql://user@host:port/database; a JDBC URL belongs to Spark's format jdbc")
    if parts.query or parts.fragment:
        raise OptionError("option url takes no parameters after the database: use options")
    if port == 0:
        raise OptionError("option url is mysql://user@host:port/database; its port is not 0")
    found = {
        "host": parts.hostname,
        "port": str(port or ""),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")),
    }
    found = {name: value for name, value in found.items() if value}
    for name in found:
        if given.has(name):
            raise OptionError(f"option {name} is given twice: once by itself and once in url")
    return found


def _password(given: _Given, in_url: str | None) -> str:
    ways = [name for name in ("password", "passwordFile", "passwordEnv") if given.has(name)]
    if in_url is not None:
        ways.append("url")
    if len(ways) > 1:
        raise OptionError(f"the password is given {len(ways)} times, by {' and '.join(ways)}: give it once")
    if in_url is not None:
        return in_url
    if given.has("passwordFile"):
        return _secret_file(given.text("passwordFile", ""))
    if given.has("passwordEnv"):
        name = given.text("passwordEnv", "")
        if name not in os.environ:
            raise OptionError(
                f"option passwordEnv names the environment variable {name!r}, which is not set on this machine"
            )
        return os.environ[name]
    return given.text("password", "")


def _secret_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option passwordFile names {path!r}, which cannot be read: {error}") from None
