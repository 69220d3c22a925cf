"""The messages between workers and between proxies, as frames of bytes. Pure; proxy.cluster.peer_link sends them.

A frame is a header of 10 bytes (length of the body, version, kind, and four bytes that mean nothing any more) and a
body in JSON. A frame of another version is dropped, so old and new versions can run side by side. No message has to
arrive: the engine's safety scan finds what a lost one would have reported, and LOST requests that scan.

Nothing in a message depends on the machine: queues go by database and table, messages by id, connections by the id that
the database gave them, addresses as text. So the same frames can travel between machines.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.queue import MessageId, QueueName
from engine.sticky_members import Members

VERSION = 1
BODY_MAX_BYTES = 64 * 1024
"""Some thousand ids, or some hundred streams. More is sent in several messages, or less precisely."""

_HEADER = struct.Struct("<IBBHH")
_UNUSED = 0, 0xFFFF  # sender and target, when frames were still passed on
_CONTENTS_MAX_BYTES = BODY_MAX_BYTES - 8192  # ids or items; the rest is for names and brackets


class MessageKind(IntEnum):
    """The kind of a message. 1 and 2 are of an earlier version."""

    LOST = 3
    """Messages were lost: poll the table."""
    COMMITS = 4
    """These queues have changed: a CommitReport."""
    LOGIN = 5
    """A login from this address failed, or succeeded after failures."""
    KILL = 6
    """End the connection of that id, or what it is doing."""
    ASK = 7
    """A question, with a number that its answers bear."""
    ANSWER = 8
    """Items of an answer; `more`: further ones follow."""
    PING = 9
    """Between machines: still here."""
    MEMBERS = 10
    """The sender's receivers of some queues that have keys of their own; `all`: and it has none of other queues."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A message on its way."""

    kind: int
    text: bytes

    @property
    def body(self) -> Any:
        """The body's value. Raises ValueError where it is none."""
        return json.loads(self.text)


class FrameError(Exception):
    """The received bytes are no frame: the sender is defective."""


def encode(kind: MessageKind, body: object = None) -> bytes:
    """A frame. Raises ValueError where the body is too large for one."""
    text = json.dumps(body, separators=(",", ":")).encode()
    if len(text) > BODY_MAX_BYTES:
        raise ValueError(f"a message of {len(text)} bytes, of at most {BODY_MAX_BYTES}")
    return _HEADER.pack(len(text), VERSION, kind, *_UNUSED) + text


class Framer:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now, without those of other versions. Raises FrameError."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEADER.size:
                size, version, kind, *_ = _HEADER.unpack_from(buffer, at)
                if size > BODY_MAX_BYTES:
                    raise FrameError(f"a frame of {size} bytes")
                end = at + _HEADER.size + size
                if len(buffer) < end:
                    break
                frame = Frame(kind, bytes(buffer[at + _HEADER.size : end]))
                at = end
                if version == VERSION:
                    yield frame
        finally:
            del buffer[:at]


def portions(items: Iterable[object]) -> Iterator[list[object]]:
    """The items in lists, each of which fits into one message."""
    portion: list[object] = []
    size = 0
    for item in items:
        weight = len(json.dumps(item)) + 1
        if size + weight > _CONTENTS_MAX_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += weight
    yield portion


def fits(value: object) -> bool:
    """Whether it can be a part of one message."""
    return len(json.dumps(value)) <= _CONTENTS_MAX_BYTES


def report_body(report: CommitReport) -> object:
    """A CommitReport as JSON. Ids beyond what one message holds are not named: their queues are uncertain instead."""
    named: dict[str, list[object]] = {"s": [], "c": []}
    uncertain = set(report.uncertain)
    room = _CONTENTS_MAX_BYTES
    for key, ids_of in (("s", report.settled), ("c", report.changed)):
        for name, ids in ids_of.items():
            room -= sum(_id_bytes(id_) for id_ in ids)
            if room < 0:
                uncertain.add(name)
            else:
                named[key].append([*_name_body(name), [id_body(id_) for id_ in ids]])
    queues = {"t": report.touched, "u": uncertain, "r": report.rejected, "o": report.overdue}
    return {**named, **{key: [_name_body(name) for name in names] for key, names in queues.items()}}


def report_of(body: Any) -> CommitReport:
    """The inverse of `report_body`. Raises ValueError, KeyError or TypeError where it is none."""
    return CommitReport(
        touched=_names_of(body["t"]),
        settled=_ids_of(body["s"]),
        uncertain=_names_of(body["u"]),
        changed=_ids_of(body.get("c", ())),
        rejected=_names_of(body.get("r", ())),
        overdue=_names_of(body.get("o", ())),
    )


def members_bodies(members: Members) -> Iterator[object]:
    """The members of all queues of a process as JSON, in the order in which they are to be sent. The first says that
    there are no others than those that follow."""
    queues = (_members_of_queue(name, of_queue) for name, of_queue in members.items())
    for number, portion in enumerate(portions(queues)):
        yield {"all": number == 0, "q": portion}


def members_body(name: QueueName, members: Sequence[Member]) -> object:
    """The members of one queue of a process as JSON."""
    return {"all": False, "q": [_members_of_queue(name, members)]}


def _members_of_queue(name: QueueName, members: Sequence[Member]) -> list[object]:
    """Members beyond what one message holds are left out: there the others take them for receivers without keys."""
    return [*_name_body(name), next(portions(list(astuple(member)) for member in members))]


def members_of(body: Any) -> tuple[Members, bool]:
    """What these have written; and whether there are no others. Raises ValueError, KeyError or TypeError where it is
    neither."""
    queues = {
        QueueName(str(database), str(table)): tuple(Member(str(id_), bool(exclusive)) for id_, exclusive in members)
        for database, table, members in body["q"]
    }
    return queues, bool(body["all"])


def _names_of(body: Any) -> frozenset[QueueName]:
    return frozenset(QueueName(*name) for name in body)


def _ids_of(body: Any) -> dict[QueueName, tuple[MessageId, ...]]:
    return {QueueName(database, table): tuple(map(id_of, ids)) for database, table, ids in body}


def merged(reports: list[CommitReport]) -> CommitReport:
    """Several reports as one."""
    if len(reports) == 1:
        return reports[0]
    return CommitReport(
        touched=frozenset().union(*(report.touched for report in reports)),
        settled=_joined(report.settled for report in reports),
        uncertain=frozenset().union(*(report.uncertain for report in reports)),
        changed=_joined(report.changed for report in reports),
        rejected=frozenset().union(*(report.rejected for report in reports)),
        overdue=frozenset().union(*(report.overdue for report in reports)),
    )


def _joined(mappings: Iterable[Mapping[QueueName, tuple[MessageId, ...]]]) -> dict[QueueName, tuple[MessageId, ...]]:
    joined: dict[QueueName, tuple[MessageId, ...]] = {}
    for mapping in mappings:
        for name, ids in mapping.items():
            joined[name] = joined.get(name, ()) + tuple(ids)
    return joined


def _name_body(name: QueueName) -> list[str]:
    return [name.database, name.table]


def id_body(id_: MessageId) -> object:
    """An id as JSON."""
    return {"x": id_.hex()} if isinstance(id_, bytes) else id_


def id_of(body: Any) -> MessageId:
    """The inverse of `id_body`. Raises TypeError or ValueError where it is none."""
    if isinstance(body, dict):
        return bytes.fromhex(body["x"])
    if isinstance(body, bool) or not isinstance(body, int | str):
        raise TypeError(f"no message id: {body!r}")
    return body


def _id_bytes(id_: MessageId) -> int:
    """About what an id takes in JSON; a character may take six."""
    return 20 if isinstance(id_, int) else 6 * len(id_) + 10
