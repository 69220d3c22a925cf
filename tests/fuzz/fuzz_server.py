"""A MySQL server that is not there: it greets, judges logins by the rules of the plugins, and answers every command.

It is the witness of what reached the database: each command is kept with the moment it came, and what may not come
(anything while it decides on a login, anything after a refusal) is kept as an offence. `Spoiler` makes it a broken or
hostile server: what it says is cut, changed, doubled, held back, or followed by a hang-up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import fuzz_wire as w
from fuzz_loop import FuzzLoop, FuzzTransport
from fuzz_results import Answers

ACCOUNTS = {b"root": b"", b"app": b"secret", b"old": b"geheim"}
GREETING = bytes.fromhex(
    "0a31302e31312e31342d4d6172696144420007000000" "6162636465666768" "00" "fef7" "2d" "0200" "ff81" "15"
    "00000000000000000000" "696a6b6c6d6e6f7071727374" "00"
) + b"mysql_native_password\0"  # fmt: skip

_DECIDING_TURNS = 12  # of the loop, until a login is decided: enough for a client, or the gate, to speak too early

Spoiler = Callable[[bytes], list[bytes | None]]
"""What is sent in place of some bytes; None is a hang-up."""


def with_flags(greeting: bytes, flags: int) -> bytes:
    """The same greeting offering more (of the lower half)."""
    at = greeting.index(b"\0") + 14
    return (
        greeting[:at]
        + (int.from_bytes(greeting[at : at + 2], "little") | flags).to_bytes(2, "little")
        + greeting[at + 2 :]
    )


@dataclass
class StandIn:
    """One connection to the server. `commands` are (payload, bytes the client had been shown by then).
    `nonces` are those for logins after the greeting's; `limited`: opened for an account that may not do everything."""

    loop: FuzzLoop
    transport: FuzzTransport
    answers: Answers
    greeting: bytes = GREETING
    nonces: list[bytes] = field(default_factory=list)
    spoil: Spoiler | None = None
    shown: Callable[[], int] = lambda: 0
    commands: list[tuple[bytes, int]] = field(default_factory=list)
    offences: list[str] = field(default_factory=list)
    limited: bool = False
    refused: bool = False
    gone: bool = False

    def __post_init__(self) -> None:
        self.greeting = with_flags(self.greeting, w.COMPRESS)
        self._state = "greeted"
        self._buffer = b""
        self._parts = b""
        self._nonce = w.nonce_of(self.greeting)
        self._switches = 0
        self._user = b""
        self._came, self._read = 0, 0
        self._compressed, self._raw, self._outer = False, b"", 0
        self._stamps: list[tuple[int, int]] = []
        self.transport.on_write = self._stamp
        self.transport.on_data = self._take
        self.transport.on_end = self._ended
        self._say([self.greeting], 0)

    # --- bytes

    def _stamp(self, size: int) -> None:
        """Bytes were sent, and are taken later: what the client had been shown is kept from now."""
        self._came += size
        self._stamps.append((self._came, self.shown()))

    def _shown_then(self) -> int:
        """What the client had been shown when the packet that has just been read was sent."""
        if self._compressed:
            return self.shown()
        while self._stamps[0][0] < self._read:
            self._stamps.pop(0)
        return self._stamps[0][1]

    def _take(self) -> None:
        data, self.transport.written = bytes(self.transport.written), bytearray()
        if self._compressed and data:
            data = self._unpacked(data)
        self._buffer += data
        if self.refused and data:
            self.offences.append(f"{len(data)} bytes came after a refused login")
        packets, self._buffer = w.packets_of(self._buffer)
        for packet in packets:
            self._read += len(packet.payload) + w.HEADER
            if not self.gone:
                self._packet(packet)

    def _unpacked(self, data: bytes) -> bytes:
        try:
            plain, self._raw, numbers = w.uncompressed(self._raw + data)
        except w.WireError as error:
            self.offences.append(f"reached the server: {error}")
            return b""
        if numbers:
            self._outer = numbers[-1] + 1
        return plain

    def _packet(self, packet: w.Packet) -> None:
        self._parts += packet.payload
        if len(packet.payload) == w.FULL:
            return
        payload, self._parts = self._parts, b""
        match self._state:
            case "greeted":
                self.limited = b"_queuegate_user\x03app" in payload
                self._judge(lambda: w.read_response(payload, w.offered_by(self.greeting)), packet.seq)
            case "switched":
                self._decide(payload == self._proof(), packet.seq)
            case "deciding" if packet.seq or payload != b"\x01":  # the gate says goodbye when its client is gone
                self.offences.append(f"{payload[:40]!r} came before the login was decided")
            case "file":
                if not payload:
                    self._state = "ready"
                    self._answer_with(self.answers.after_file(), packet.seq + 1)
            case "deciding":
                self.hang_up()
            case _:
                self._command(payload, packet.seq)

    def _say(self, payloads: list[bytes], seq: int) -> None:
        data = b"".join(w.framed(payload, seq + n & 0xFF) for n, payload in enumerate(payloads))
        if self._compressed:
            data = self._packed(data)
        for piece in [data] if self.spoil is None else self.spoil(data):
            if piece is None:
                self.hang_up()
            elif not self.gone and piece:
                self.transport.deliver(piece)

    def _packed(self, data: bytes) -> bytes:
        packed = b""
        for start in range(0, len(data), 40_000):
            packed += w.compressed(data[start : start + 40_000], self._outer)
            self._outer += 1
        return packed

    def hang_up(self) -> None:
        if not self.gone:
            self.gone = True
            self.transport.hang_up()

    def _ended(self) -> None:
        self.gone = True

    # --- logins

    def _judge(self, read: Callable[[], w.Login], seq: int) -> None:
        try:
            login = read()
        except w.WireError as error:
            self.offences.append(f"a login that is none reached the server: {error}")
            self._decide(False, seq)
            return
        self._user = login.user
        self.answers.capabilities = login.capabilities
        right = login.auth == self._proof()
        if right or (self._state == "greeted" and login.plugin in (b"", b"mysql_native_password")):
            self._decide(right, seq)
        elif self.answers.capabilities & w.PLUGIN_AUTH:
            self._switches += 1
            made_up = bytes(97 + (n * 7 + self._switches) % 26 for n in range(20))
            self._nonce = self.nonces.pop(0) if self.nonces else made_up
            self._state = "switched"
            self._say([b"\xfemysql_native_password\0" + self._nonce + b"\0"], seq + 1)
        else:
            self._decide(False, seq)

    def _proof(self) -> bytes | None:
        password = ACCOUNTS.get(self._user)
        return password and w.native_proof(password, self._nonce)

    def _decide(self, right: bool, seq: int) -> None:
        self._state = "deciding"
        self._decided(right, seq, _DECIDING_TURNS)

    def _decided(self, right: bool, seq: int, turns: int) -> None:
        if turns and not self.gone:
            self.loop.call_soon(self._decided, right, seq, turns - 1)
            return
        if self.gone:
            return
        self._state = "ready"
        if right:
            self._say([self.answers.ok()], seq + 1)
            self._compressed = self._compressed or bool(self.answers.capabilities & w.COMPRESS)
            return
        self.refused = True
        self._say([b"\xff\x15\x04#28000Access denied"], seq + 1)
        self.transport.deliver(None)
        self.loop.call_later(1.0, self.hang_up)

    # --- commands

    def _command(self, payload: bytes, seq: int) -> None:
        self.commands.append((payload, self._shown_then()))
        command = payload[0] if payload else -1
        if command == w.QUIT:
            self.hang_up()
        elif command == w.CHANGE_USER:
            self._state = "asked"
            self._judge(lambda: w.read_change_user(payload[1:], self.answers.capabilities), seq)
        else:
            answer = self.answers.to(payload)
            if answer and answer[-1].startswith(b"\xfb") and command == w.QUERY:
                self._state = "file"
            self._answer_with(answer, seq + 1)

    def _answer_with(self, payloads: list[bytes], seq: int) -> None:
        if payloads:
            self._say(payloads, seq & 0xFF)
