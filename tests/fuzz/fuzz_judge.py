"""Reads what a client got as a strict client would, beside what it had sent, and says what is wrong with it.

Every packet has to be explained: by the login, by a command that was sent, or by a fault of the client's. Tells besides
when the client was in, so that what was executed can be held against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import fuzz_wire as w

MORE, CURSOR, LAST_ROW = 0x08, 0x40, 0x80
_UNKNOWN_TYPE = -1  # of columns that are not described because the client has kept their definitions
_FIXED = {0x01: 1, 0x02: 2, 0x0D: 2, 0x03: 4, 0x09: 4, 0x08: 8, 0x04: 4, 0x05: 8, 0x06: 0}
_MOMENTS = {0x07: (0, 4, 7, 11), 0x0A: (0, 4, 7, 11), 0x0C: (0, 4, 7, 11), 0x0B: (0, 8, 12)}


class Complaint(Exception):
    """What the gate sent is not what the protocol has there."""


class _Exhausted(Exception):
    """No further packet came: what was asked has not been answered (yet)."""


class _Over(Exception):
    """An error ended the connection, or nothing of the client is to be answered any more."""


class _Quit(_Over):
    """The client said goodbye."""


@dataclass
class Verdict:
    """`entered`, `ended`: how many bytes the client had been shown when it was in, and when an error ended it all.
    `outside`: the spans in which a change of user was under way. `plain` is what was sent under compression, if it was
    agreed; `corrupt`: not all of it can be told. `unanswered`: the first command without an answer,
    `waits_for_client` if it is for the client to go on (a file that was asked for)."""

    complaints: list[str] = field(default_factory=list)
    entered: int | None = None
    ended: int | None = None
    outside: list[tuple[int, int]] = field(default_factory=list)
    unanswered: bytes | None = None
    waits_for_client: bool = False
    compressed: bool = False
    plain: bytes = b""
    corrupt: bool = False
    capabilities: int = 0
    commands: int = 0

    def may_run(self, shown: int) -> bool:
        """Whether a statement may be run for a client that has been shown so many bytes."""
        if self.entered is None or shown < self.entered:
            return False
        if self.compressed:
            return True  # bytes shown and bytes judged are not the same
        if self.ended is not None and shown >= self.ended:
            return False
        return not any(start < shown < end for start, end in self.outside)


@dataclass
class Judge:
    """One connection. `marks` are (bytes shown, bytes sent) at each moment at which the client sent something."""

    sent: bytes
    got: bytes
    marks: list[tuple[int, int]]
    carried: bool = False
    """Whether a server judges the login: then a client may speak unasked in it."""

    max_packet: int = 64 << 20
    encrypted: bool = False
    relayed: bool = False
    """Whether commands are carried to a server: then what takes several packets may be longer than the gate's own
    limit, unless the gate has to read it itself."""

    def verdict(self) -> Verdict:
        self._verdict = Verdict()
        self._client, self._sent_rest = w.packets_of(self.sent)
        self._server, rest = w.packets_of(self.got)
        self._c = self._s = self._at = 0
        self._cursors: dict[int, list[int]] = {}
        self._compressed = False
        try:
            self._login()
            while True:
                self._command()
        except _Exhausted:
            pass
        except _Over as over:
            self._verdict.ended = None if isinstance(over, _Quit) else self._at
            behind = self._server[self._s :]
            if behind and not (self._compressed and self._is_fatal(behind[0].payload)):
                # What begins a command is told by the numbers of compressed packets, which are not followed here.
                self._verdict.complaints.append(f"{len(behind)} packets behind the end")
        except (Complaint, w.WireError) as error:
            self._verdict.complaints.append(f"packet {self._s} from the gate: {error}")
        if rest and not self._compressed:
            self._verdict.complaints.append(f"half a packet at the end: {rest[:40]!r}")
        return self._verdict

    # --- packets

    def _next(self, seq: int | None = None) -> bytes:
        """The next payload from the gate, continuations joined; reports of progress are read over."""
        payload = self._one(seq)
        while payload.startswith(b"\xff\xff\xff") and self._verdict.capabilities & w.PROGRESS:
            payload = self._one(self._seq)
        return payload

    def _one(self, seq: int | None) -> bytes:
        payload = b""
        while True:
            if self._s >= len(self._server):
                raise _Exhausted
            packet = self._server[self._s]
            self._s += 1
            self._at += len(packet.payload) + w.HEADER
            wrong = seq is not None and packet.seq != seq & 0xFF and not self._compressed
            if wrong and not self._is_fatal(packet.payload):
                raise Complaint(f"sequence id {packet.seq} where {seq & 0xFF} is due: {packet.payload[:40]!r}")
            self._seq = packet.seq + 1
            seq = self._seq
            payload += packet.payload
            if len(packet.payload) < w.FULL:
                return payload

    @staticmethod
    def _is_fatal(payload: bytes) -> bool:
        """Errors that the gate sends of its own accord, whatever was going on."""
        return payload[:1] == b"\xff" and int.from_bytes(payload[1:3], "little") in (
            1053,
            1105,
            1153,
            1156,
            1157,
            1159,
            4031,
        )

    def _from_client(self, seq: int | None) -> bytes:
        """The client's next packet, which has to have that sequence id; else the gate says so and hangs up."""
        payload = b""
        while True:
            if self._c >= len(self._client):
                self._unfinished(seq, len(payload))
            packet = self._client[self._c]
            if len(payload) + len(packet.payload) > self.max_packet and not self._may_go_on(payload):
                self._fatal(1153)
            if seq is not None and packet.seq != seq & 0xFF and not self._compressed:
                self._fatal(1156)
            self._c += 1
            self._client_seq = packet.seq
            seq = packet.seq + 1
            payload += packet.payload
            if len(packet.payload) < w.FULL:
                return payload

    def _may_go_on(self, before: bytes) -> bool:
        refused = self._s < len(self._server) and self._is_fatal(self._server[self._s].payload)
        return self.relayed and bool(before) and not refused

    def _unfinished(self, seq: int | None, before: int) -> None:
        """The client's bytes end here; its last packet may be refused at its header all the same."""
        rest = self._sent_rest
        if len(rest) >= w.HEADER and self._s < len(self._server):
            if before + int.from_bytes(rest[:3], "little") > self.max_packet and not (self.relayed and before):
                self._fatal(1153)
            if seq is not None and rest[3] != seq & 0xFF and not self._compressed:
                self._fatal(1156)
            self._fatal(1159)
        if self._s < len(self._server):
            if self._is_fatal(self._server[self._s].payload):
                self._fatal(None)
            raise Complaint(f"an answer to nothing: {self._server[self._s].payload[:40]!r}")
        raise _Exhausted

    def _fatal(self, errno: int | None) -> None:
        """An error of that number is all that may follow."""
        payload = self._next()
        if payload[:1] != b"\xff":
            raise Complaint(f"error {errno} is due: {payload[:40]!r}")
        raise _Over

    # --- login

    def _login(self) -> None:
        greeting = self._next(0)
        if greeting[:1] == b"\xff":
            raise _Over
        offered = w.offered_by(greeting)
        first = self._client[1].payload if self.encrypted and len(self._client) > 1 else self.sent[4:36]
        self._verdict.capabilities = w.capabilities_of(first, offered)
        self._authentication()
        self._verdict.entered = self._at
        if self._verdict.capabilities & w.COMPRESS:
            self._uncompress()

    def _uncompress(self) -> None:
        """From here on both sides pack their packets. Where the client's make no sense, the gate may say so."""
        self._compressed = self._verdict.compressed = True
        plain, self._verdict.corrupt = w.uncompressed_so_far(self.sent[self._client_bytes(self._c) :])
        self._verdict.plain = self.sent[: self._client_bytes(self._c)] + plain
        self._client, self._sent_rest = w.packets_of(plain)
        plain, rest, _ = w.uncompressed(self.got[self._at :])
        if rest:
            raise Complaint(f"half a compressed packet at the end: {rest[:40]!r}")
        self._server, rest = w.packets_of(plain)
        if rest:
            raise Complaint(f"half a packet in compressed ones: {rest[:40]!r}")
        self._c = self._s = 0

    def _authentication(self) -> None:
        """From the client's first words to the verdict; a request for TLS is nothing that is answered."""
        asked = True
        if self.encrypted and self._verdict.entered is None:
            self._from_client(None)
        while True:
            if asked:
                self._from_client(None)
            payload = self._next()
            asked = payload[:1] == b"\xfe" or (payload[:1] == b"\x01" and payload != b"\x01\x03")
            if payload[:1] == b"\xff":
                raise _Over
            if payload[:1] == b"\0":
                break
            if payload[:1] not in (b"\xfe", b"\x01"):
                raise Complaint(f"no packet of a login: {payload[:40]!r}")
        if self.carried and not self._compressed:
            before = self._sent_before(self._at)
            while self._c < len(self._client) and self._client_bytes(self._c + 1) <= before:
                self._c += 1

    def _sent_before(self, shown: int) -> int:
        """How much the client had sent when it was shown that much."""
        return min((sent for seen, sent in self.marks if seen >= shown), default=len(self.sent))

    def _client_bytes(self, count: int) -> int:
        return sum(len(packet.payload) + w.HEADER for packet in self._client[:count])

    # --- commands

    def _command(self) -> None:
        first = self._c
        payload = self._from_client(0)
        self._verdict.commands += 1
        self._verdict.unanswered = payload
        due = self._c - first
        command = payload[0] if payload else -1
        if command == w.QUIT:
            raise _Quit
        if command == -1:
            self._fatal(1835)
        if command == w.CHANGE_USER:
            start = self._at
            self._c -= due
            try:
                self._authentication()
            finally:
                self._verdict.outside.append((start, self._at))
        elif command not in w.NO_ANSWER:
            self._answer(command, payload, due)
        self._verdict.unanswered = None

    def _answer(self, command: int, payload: bytes, seq: int) -> None:
        match command:
            case w.STATISTICS:
                self._next(seq)
            case w.PREPARE:
                self._prepared(self._next(seq))
            case w.FETCH | w.FIELD_LIST:
                types = self._cursors.get(int.from_bytes(payload[1:5], "little"), []) if command == w.FETCH else None
                self._rows(types if types is None else ("binary", types), seq)
            case _:
                self._results(command, payload, seq)

    def _results(self, command: int, payload: bytes, seq: int) -> None:
        while True:
            first = self._next(seq)
            if first[:1] == b"\xff":
                return self._error(first)
            if first[:1] == b"\xfb" and command == w.QUERY:
                seq = self._file()
                continue
            if first[:1] == b"\0" or (first[:1] == b"\xfe" and len(first) < 9):
                status = self._ok(first)
            else:
                status = self._result_set(command, payload, first)
            if status is None or not status & MORE:
                return None
            seq = self._seq

    def _file(self) -> int:
        """LOAD DATA LOCAL: the client's packets up to an empty one."""
        seq = self._seq
        self._verdict.waits_for_client = True
        while self._from_client(seq):
            seq = self._client_seq + 1
        self._verdict.waits_for_client = False
        return self._client_seq + 1

    def _ok(self, payload: bytes) -> int:
        """The status flags of an OK or EOF packet; the packet has to end where its parts do."""
        cursor = w.Cursor(payload)
        if cursor.number(1) == 0xFE and len(payload) == 5:
            cursor.number(2)
            return cursor.number(2)
        cursor.lenenc()
        cursor.lenenc()
        return cursor.number(2)

    def _error(self, payload: bytes) -> None:
        cursor = w.Cursor(payload)
        cursor.take(3)
        if cursor.take(6)[:1] != b"#":
            raise Complaint(f"an error without a SQLSTATE: {payload[:40]!r}")

    def _result_set(self, command: int, payload: bytes, first: bytes) -> int | None:
        cursor = w.Cursor(first)
        count = cursor.lenenc()
        described = not self._verdict.capabilities & (w.CACHE_METADATA | w.OPTIONAL_METADATA) or cursor.number(1)
        if not count or cursor.left:
            raise Complaint(f"no column count: {first[:40]!r}")
        if described:
            types = [self._definition(self._next(self._seq)) for _ in range(count)]
        else:
            types = [_UNKNOWN_TYPE] * count
        if not self._verdict.capabilities & w.DEPRECATE_EOF:
            status = self._ok(self._eof(self._next(self._seq)))
            if status & (CURSOR | MORE) == CURSOR and command == w.EXECUTE:
                self._cursors[int.from_bytes(payload[1:5], "little")] = types
                return status
        if command == w.EXECUTE:
            self._cursors[int.from_bytes(payload[1:5], "little")] = types
        return self._rows(("binary" if command in (w.EXECUTE, w.BULK_EXECUTE) else "text", types), self._seq)

    def _definition(self, payload: bytes, *, default: bool = False) -> int:
        """A column definition; its type."""
        cursor = w.Cursor(payload)
        for _ in range(7 if self._verdict.capabilities & w.EXTENDED_METADATA else 6):
            cursor.text()
        if cursor.lenenc() != 12:
            raise Complaint(f"no column definition: {payload[:40]!r}")
        fixed = cursor.take(12)
        if cursor.left and not default:
            raise Complaint(f"a column definition that goes on: {payload[:80]!r}")
        return fixed[6]

    @staticmethod
    def _eof(payload: bytes) -> bytes:
        if payload[:1] != b"\xfe" or len(payload) != 5:
            raise Complaint(f"no EOF packet: {payload[:40]!r}")
        return payload

    def _rows(self, form: tuple[str, list[int]] | None, seq: int) -> int | None:
        """Rows to their end; the last status flags, or None after an error. `form` None: COM_FIELD_LIST's."""
        while True:
            payload = self._next(seq)
            seq = self._seq
            if payload[:1] == b"\xff":
                self._error(payload)
                return None
            if payload[:1] == b"\xfe" and len(payload) < (w.FULL if self._deprecated else 9):
                return self._ok(payload)
            if form is None:
                self._definition(payload, default=True)
            elif form[0] == "text":
                self._text_row(payload, len(form[1]))
            else:
                self._binary_row(payload, form[1])

    @property
    def _deprecated(self) -> bool:
        return bool(self._verdict.capabilities & w.DEPRECATE_EOF)

    @staticmethod
    def _text_row(payload: bytes, count: int) -> None:
        cursor = w.Cursor(payload)
        for _ in range(count):
            if payload[cursor.at : cursor.at + 1] == b"\xfb":
                cursor.take(1)
            else:
                cursor.text()
        if cursor.left:
            raise Complaint(f"a row that goes on: {payload[:80]!r}")

    @staticmethod
    def _binary_row(payload: bytes, types: list[int]) -> None:
        cursor = w.Cursor(payload)
        if cursor.number(1) != 0:
            raise Complaint(f"no binary row: {payload[:40]!r}")
        if _UNKNOWN_TYPE in types:
            return
        nulls = int.from_bytes(cursor.take((len(types) + 9) // 8), "little")
        for number, kind in enumerate(types, 2):
            if nulls >> number & 1:
                continue
            if kind in _FIXED:
                cursor.take(_FIXED[kind])
            elif kind in _MOMENTS:
                size = cursor.number(1)
                if size not in _MOMENTS[kind]:
                    raise Complaint(f"a moment of {size} bytes")
                cursor.take(size)
            else:
                cursor.text()
        if cursor.left:
            raise Complaint(f"a binary row that goes on: {payload[:80]!r}")

    def _prepared(self, payload: bytes) -> None:
        if payload[:1] == b"\xff":
            return self._error(payload)
        cursor = w.Cursor(payload)
        described = 1 if self._verdict.capabilities & w.OPTIONAL_METADATA else 0
        if cursor.number(1) != 0 or len(payload) != 12 + described:
            raise Complaint(f"no answer to COM_STMT_PREPARE: {payload[:40]!r}")
        cursor.take(4)
        columns, parameters = cursor.number(2), cursor.number(2)
        for count in (parameters, columns):
            for _ in range(count):
                self._definition(self._next(self._seq))
            if count and not self._deprecated:
                self._eof(self._next(self._seq))
        return None
