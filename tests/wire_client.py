"""A client that speaks packets by hand and keeps every byte: what a server said directly and through the proxy can be
compared to the bit. Written from the protocol's documentation, with nothing of the code under test in it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha1

FULL = 0xFFFFFF
LONG_PASSWORD, FOUND_ROWS, CONNECT_WITH_DB, LOCAL_FILES, SSL = 1, 2, 8, 128, 2048
MULTI_STATEMENTS, PLUGIN_AUTH, CONNECT_ATTRS, LENENC_AUTH = 1 << 16, 1 << 19, 1 << 20, 1 << 21
SESSION_TRACK, DEPRECATE_EOF, OPTIONAL_METADATA, QUERY_ATTRIBUTES = 1 << 23, 1 << 24, 1 << 25, 1 << 27
PROGRESS, BULK, EXTENDED_METADATA, CACHE_METADATA, UNIT_RESULTS = 1 << 32, 1 << 34, 1 << 35, 1 << 36, 1 << 37
NO_SCHEMA, COMPRESS = 16, 32
UNUSUAL = NO_SCHEMA | 64 | 256 | 1024 | 1 << 26 | QUERY_ATTRIBUTES | 1 << 28
"""NO_SCHEMA, by which servers read db.table as table; ODBC, IGNORE_SPACE, INTERACTIVE. Of MySQL: zstd and several
factors, which add to a login, and attributes, which add to each command."""
LOCAL_TO_CLIENTS = 0xE0000000

MORE_RESULTS, CURSOR_EXISTS, LAST_ROW_SENT = 8, 64, 128
QUIT, INIT_DB, QUERY, FIELD_LIST, STATISTICS, PING, CHANGE_USER = 1, 2, 3, 4, 9, 14, 17
PREPARE, EXECUTE, LONG_DATA, CLOSE, RESET, SET_OPTION, FETCH = 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1C
RESET_CONNECTION, BULK_EXECUTE = 0x1F, 0xFA
LAST_PREPARED = 0xFFFFFFFF


class Hangup(Exception):
    """The peer closed the line."""


@dataclass
class Answer:
    """Every packet of one answer: sequence ids and payloads."""

    packets: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def last(self) -> bytes:
        return self.packets[-1][1]

    @property
    def ok(self) -> bool:
        return self.last[:1] != b"\xff"

    @property
    def errno(self) -> int:
        return int.from_bytes(self.last[1:3], "little") if not self.ok else 0

    @property
    def error(self) -> tuple[int, str]:
        assert not self.ok, self.packets
        return self.errno, self.last[9:].decode(errors="replace")

    @property
    def statement(self) -> int:
        """The id in the answer to a COM_STMT_PREPARE."""
        assert self.packets[0][1][:1] == b"\x00", self.packets
        return int.from_bytes(self.packets[0][1][1:5], "little")

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.packets]

    @property
    def affected_rows(self) -> int:
        assert self.last[:1] == b"\x00", self.packets
        return lenenc(self.last, 1)[0]


def lenenc(data: bytes, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0xFB:
        return first, position + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[position + 1 : position + 1 + size], "little"), position + 1 + size


def string(value: bytes) -> bytes:
    assert len(value) < 251
    return bytes((len(value),)) + value


def frame(payload: bytes, seq: int = 0) -> bytes:
    """A payload as physical packets."""
    out = []
    for start in range(0, len(payload) + 1, FULL):
        piece = payload[start : start + FULL]
        out.append(struct.pack("<I", len(piece) | (seq & 255) << 24) + piece)
        seq += 1
    return b"".join(out)


def native(password: bytes, nonce: bytes) -> bytes:
    """mysql_native_password's proof."""
    if not password:
        return b""
    once = sha1(password).digest()
    mask = sha1(nonce + sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


class WireClient:
    """Logs in with mysql_native_password. `drop` and `add`: capabilities; all that the server offers are taken else."""

    def __init__(
        self,
        port: int,
        *,
        user: str = "root",
        password: str = "",
        database: str | None = None,
        drop: int = 0,
        add: int = 0,
        charset: int = 45,
        timeout: float = 30.0,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.socket.makefile("rb")
        try:
            self._read_greeting(drop, add, database)
            self._login(user, password, database, charset)
        except BaseException:
            self.close()
            raise

    def _read_greeting(self, drop: int, add: int, database: str | None) -> None:
        self.greeting = self.packet()[1]
        assert self.greeting[:1] == b"\x0a", self.greeting
        end = self.greeting.index(b"\x00")
        self.version = self.greeting[1:end].decode()
        rest = self.greeting[end + 1 :]
        self.connection_id = int.from_bytes(rest[:4], "little")
        self.nonce = rest[4:12] + rest[31:43]
        self.offered = int.from_bytes(rest[13:15], "little") | int.from_bytes(rest[18:20], "little") << 16
        if not self.offered & LONG_PASSWORD:
            self.offered |= int.from_bytes(rest[27:31], "little") << 32
        wanted = self.offered & ~(SSL | COMPRESS | LOCAL_TO_CLIENTS | CONNECT_ATTRS | CONNECT_WITH_DB | UNUSUAL)
        self.flags = wanted & ~drop | add | (CONNECT_WITH_DB if database is not None else 0)

    def _login(self, user: str, password: str, database: str | None, charset: int) -> None:
        self.flags |= PLUGIN_AUTH | LENENC_AUTH
        head = struct.pack("<IIB19xI", self.flags & 0xFFFFFFFF, 1 << 30, charset, self.flags >> 32)
        auth = string(native(password.encode(), self.nonce))
        name = b"" if database is None else database.encode() + b"\x00"
        self.socket.sendall(frame(head + user.encode() + b"\x00" + auth + name + b"mysql_native_password\x00", 1))
        seq, self.login = self.packet()
        if self.login[:1] == b"\xfe":
            self.nonce = self.login.split(b"\x00", 1)[1][:20]
            self.socket.sendall(frame(native(password.encode(), self.nonce), seq + 1))
            self.login = self.packet()[1]

    # --- packets

    def send(self, payload: bytes, seq: int = 0) -> None:
        self.socket.sendall(frame(payload, seq))

    def packet(self) -> tuple[int, bytes]:
        """The next packet, continuations joined; the sequence id is the first one's."""
        parts: list[bytes] = []
        first = None
        while True:
            header = self._read(4)
            size = int.from_bytes(header[:3], "little")
            first = header[3] if first is None else first
            parts.append(self._read(size))
            if size < FULL:
                return first, b"".join(parts)

    def _read(self, size: int) -> bytes:
        try:
            data = self.file.read(size)
        except ConnectionError as error:
            raise Hangup(str(error)) from error
        if len(data) < size:
            raise Hangup("the peer closed the line")
        return data

    # --- answers

    def command(self, command: int, body: bytes = b"") -> Answer:
        """Send a command and read its whole answer."""
        self.send(bytes((command,)) + body)
        return self.answer(command)

    def query(self, sql: str | bytes) -> Answer:
        text = sql if isinstance(sql, bytes) else sql.encode()
        return self.command(QUERY, self.attributes + text)

    @property
    def attributes(self) -> bytes:
        return b"\x00\x01" if self.flags & QUERY_ATTRIBUTES else b""

    def answer(self, command: int = QUERY) -> Answer:
        answer = Answer()
        if command in (QUIT, CLOSE, LONG_DATA):
            return answer
        if command == PREPARE:
            self._prepared(answer)
        elif command == STATISTICS:
            self._take(answer)
        elif command in (FIELD_LIST, FETCH):
            self._rows(answer)
        else:
            while self._result(answer, command) & MORE_RESULTS:
                pass
        return answer

    def _take(self, answer: Answer) -> bytes:
        """One packet; progress reports on the way are kept, as part of the answer."""
        while True:
            seq, payload = self.packet()
            answer.packets.append((seq, payload))
            if not (self.flags & PROGRESS and payload.startswith(b"\xff\xff\xff")):
                return payload

    def _result(self, answer: Answer, command: int) -> int:
        """One OK, error or result set; returns the status flags."""
        first = self._take(answer)
        if first[0] == 0xFF or (first[0] == 0xFB and command == QUERY):
            return 0
        if first[0] == 0x00 or (first[0] == 0xFE and len(first) < 9):
            return self._status(first)
        count, position = lenenc(first, 0)
        described = not self.flags & (CACHE_METADATA | OPTIONAL_METADATA) or first[position] == 1
        for _ in range(count if described else 0):
            self._take(answer)
        if not self.flags & DEPRECATE_EOF:
            end = self._take(answer)
            if end[0] == 0xFF or (
                self._status(end) & (CURSOR_EXISTS | MORE_RESULTS) == CURSOR_EXISTS and command == EXECUTE
            ):
                return 0
        return self._rows(answer)

    def _rows(self, answer: Answer) -> int:
        while True:
            row = self._take(answer)
            if row[0] == 0xFF:
                return 0
            if row[0] == 0xFE and len(row) < (FULL if self.flags & DEPRECATE_EOF else 9):
                return self._status(row)

    def _prepared(self, answer: Answer) -> None:
        first = self._take(answer)
        if first[0] == 0xFF:
            return
        for count in (int.from_bytes(first[7:9], "little"), int.from_bytes(first[5:7], "little")):
            described = not self.flags & OPTIONAL_METADATA or first[12] == 1
            for _ in range(count if described else 0):
                self._take(answer)
            if count and not self.flags & DEPRECATE_EOF:
                self._take(answer)

    @staticmethod
    def _status(packet: bytes) -> int:
        if packet[0] == 0xFE and len(packet) < 7:
            return int.from_bytes(packet[3:5], "little")
        _, position = lenenc(packet, 1)
        _, position = lenenc(packet, position)
        return int.from_bytes(packet[position : position + 2], "little")

    # --- conveniences

    def prepare(self, sql: str) -> int:
        answer = self.command(PREPARE, sql.encode())
        assert answer.ok, answer.error
        return answer.statement

    def execute(self, statement: int, parameters: bytes = b"", *, flags: int = 0) -> Answer:
        """`parameters`: null bitmap, the byte that announces types, types and values."""
        return self.command(EXECUTE, struct.pack("<IBI", statement, flags, 1) + parameters)

    def value(self, sql: str) -> bytes | None:
        """The only value of the only row of a text result."""
        answer = self.query(sql)
        assert answer.ok, answer.error
        row = answer.payloads[-2]
        if row[:1] == b"\xfb":
            return None
        size, position = lenenc(row, 0)
        return row[position : position + size]

    def run(self, *statements: str) -> None:
        for sql in statements:
            answer = self.query(sql)
            assert answer.ok, (sql, answer.error)

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bulk(statement: int, types: Iterable[int], rows: Iterable[Iterable[bytes | None]], *, flags: int = 128) -> bytes:
    """The body of a COM_STMT_BULK_EXECUTE; values are given in their binary form."""
    body = struct.pack("<IH", statement, flags) + b"".join(struct.pack("<BB", kind, 0) for kind in types)
    for row in rows:
        body += b"".join(b"\x01" if value is None else b"\x00" + value for value in row)
    return body
