"""From recorded conversations to inputs: what is sent, how it is wrong, and how it is cut up on its way.

Everything comes out of one `random.Random`, so a number is an input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import fuzz_wire as w
from fuzz_corpus import Conversation
from fuzz_gate import MAX_PACKET
from fuzz_input import Input, Spoil, Step
from fuzz_spoil import KINDS
from fuzz_sql import encoded
from fuzz_wire import Packet

HUGE = 0.0003  # of the inputs, about three hundred of a million: each takes as long as hundreds of others
ABOUT_QUEUES = 0.6  # of the inputs: a client that logs in as it should, and then has made up what it asks
COMMANDS_MAX = 6  # of one input: what goes wrong needs few, and short inputs are many inputs
_BYTES = (0, 1, 2, 0x03, 0x11, 0x16, 0x17, 0x1C, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_LENGTHS = (
    b"\xfb",
    b"\xfc\xff\xff",
    b"\xfd\xff\xff\xff",
    b"\xfe" + b"\xff" * 8,
    b"\xfe" + bytes(7) + b"\x80",
    b"\xfc\x00\x00",
    b"\xff",
)
_CODES = (*range(0x20), 0xFA, 0xFE, 0xFF)
_FLAGS = tuple(1 << bit for bit in range(32) if bit not in (2, 4, 10, 12, 13, 14))


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation's client: the packets of its login, and those of its commands."""

    name: str
    login: tuple[Packet, ...]
    commands: tuple[Packet, ...]


def script(conversation: Conversation) -> Script:
    login: list[Packet] = []
    commands: list[Packet] = []
    inside = False
    for sent, got in conversation.turns():
        (commands if inside else login).extend(sent)
        inside = inside or any(packet.payload[:1] == b"\0" for packet in got)
    return Script(conversation.name, tuple(login), tuple(commands))


# --- payloads


def _flip(random: Random, data: bytearray) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _byte(random: Random, data: bytearray) -> None:
    data[random.randrange(len(data))] = random.choice(_BYTES)


def _insert(random: Random, data: bytearray) -> None:
    at = random.randint(0, len(data))
    data[at:at] = random.choice((random.randbytes(random.randint(1, 9)), random.choice(_LENGTHS), b"\0", bytes(30)))


def _delete(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.choice((1, 1, 2, 4, 20))]


def _length(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    data[at : at + random.randint(0, 3)] = random.choice(_LENGTHS)


def _cut(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def _double(random: Random, data: bytearray) -> None:
    at, to = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
    data[at:at] = data[at:to]


def _command(random: Random, data: bytearray) -> None:
    data[0] = random.choice(_CODES)


def _number(random: Random, data: bytearray) -> None:
    """A statement id, a row count, a set of flags."""
    at = random.choice((0, 1, 1, 5, random.randrange(len(data))))
    number = random.choice((0, 1, 2, 3, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, random.getrandbits(32)))
    data[at : at + 4] = number.to_bytes(4, "little")


def _flags(random: Random, data: bytearray) -> None:
    flags = int.from_bytes(data[:4], "little")
    for _ in range(random.randint(1, 4)):
        flags ^= random.choice(_FLAGS)
    data[:4] = flags.to_bytes(4, "little")
    if random.random() < 0.5 and len(data) > 32:
        data[0] &= 0xFE  # a client that knows MariaDB's own, and which
        data[28:32] = random.choice((0, 0x1D, 0x3D, 1, 4, 8, 0x10, random.getrandbits(8))).to_bytes(4, "little")


def _charset(random: Random, data: bytearray) -> None:
    data[8:9] = bytes((random.choice((0, 1, 8, 28, 33, 35, 45, 54, 60, 63, 224, 255, random.randrange(256))),))


_PAYLOAD = (_flip, _byte, _insert, _delete, _length, _cut, _double, _number)


def spoil_payload(random: Random, payload: bytes, *, login: bool) -> bytes:
    data = bytearray(payload or b"\0")
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change: Callable[[Random, bytearray], None] = random.choice(
            (*_PAYLOAD, _flags, _flags, _charset) if login else (*_PAYLOAD, _command)
        )
        if data:
            change(random, data)
    return bytes(data)


# --- packets


def _id(random: Random) -> bytes:
    """A prepared statement's."""
    return random.choice((1, 1, 2, 3, 1 << 31, (1 << 32) - 1)).to_bytes(4, "little")


def _strange(random: Random) -> Packet:
    """A packet from elsewhere in the protocol."""
    flags = random.choice((w.PROTOCOL_41, 0)) | random.choice(_FLAGS)
    payloads = (
        (flags | w.SSL).to_bytes(4, "little") + bytes(4) + b"\x2d" + bytes(23),  # SSLRequest
        flags.to_bytes(4, "little") + bytes(4) + b"\x2d" + bytes(23) + b"root\0\0main\0",  # a login
        b"\x11root\0\0main\0\x2d\0mysql_native_password\0",  # COM_CHANGE_USER, no password
        b"\x11app\0\x14" + random.randbytes(20) + b"main\0\x2d\0mysql_native_password\0",
        b"",
        b"\x01",
        b"\x02",  # the request for the server's key
        b"\x1f",
        b"\x0e",
        b"\x09",
        b"\x0a",
        b"\x0c" + random.randbytes(4),
        b"\x1b" + random.choice((b"\0\0", b"\1\0", b"\2\0", b"")),
        b"\x04ft\0%",
        b"\x17" + _id(random) + random.choice((b"\0", b"\1")) + b"\1\0\0\0" + random.randbytes(6),
        b"\x18" + _id(random) + b"\0\0" + random.randbytes(40),
        b"\x1c" + _id(random) + random.choice((0, 1, 9)).to_bytes(4, "little"),
        b"\xfa" + _id(random) + random.choice((b"\x80\0", b"\xc0\0", b"\0\0")) + b"\xfd\0" + random.randbytes(8),
        bytes((random.choice(_CODES),)) + random.randbytes(random.randint(0, 12)),
    )  # fmt: skip
    return Packet(random.choice((0, 0, 0, 1, 2, random.randrange(256))), random.choice(payloads))


def spoil_packets(random: Random, packets: list[Packet], others: list[Packet]) -> None:
    """Packets lost, doubled, moved, put in; sequence ids that do not follow."""
    at = random.randint(0, len(packets))
    match random.randrange(7):
        case 0 if packets:
            del packets[at % len(packets)]
        case 1 if packets:
            packets.insert(at, packets[at % len(packets)])
        case 2 if packets:
            packets.insert(at, packets.pop(random.randrange(len(packets))))
        case 3 if packets:
            packet = packets[at % len(packets)]
            packets[at % len(packets)] = Packet(random.choice((0, 1, 2, 255, packet.seq + 1 & 255)), packet.payload)
        case 4 if others:
            start = random.randrange(len(others))
            packets[at:at] = others[start : start + random.randint(1, 3)]
        case _:
            packets.insert(at, _strange(random))


_FIRST_OWN = 1 << 31  # the gate's own prepared statements are counted from here
_BOUND = (
    (0x08, b"\1\0\0\0\0\0\0\0"), (0x08, b"\2\0\0\0\0\0\0\0"), (0x03, b"\5\0\0\0"), (0xFD, b"\1a"), (0xFE, b"\2fq"),
    (0xFC, b"\xfc\3\0\xff\0a"), (0x05, b"\0\0\0\0\0\0\xf0?"), (0x0C, b"\4\xea\7\1\2"), (0x0B, b"\0"), (0x06, b""),
    (0xF6, b"\0041.50"), (0x01, b"\7"), (0x02, b"\1\0"), (0x04, b"\0\0\x80?"), (0x07, b"\7\xea\7\1\2\3\4\5"),
    (0x8008, b"\xff" * 8), (0x10, b"\1\1"), (0xFD, b"\7\xc3\xbc'\\\0`x"),
)  # fmt: skip
"""Values of parameters as a client binds them: type, with the flag of unsigned ones, and bytes."""


def _execution(random: Random, number: bytes, parameters: int) -> Packet:
    """COM_STMT_EXECUTE with a value for each `?`, mostly."""
    flags = random.choice((b"\0", b"\0", b"\0", b"\1"))
    if random.random() < 0.1:
        parameters = random.randint(0, 3)
    bound = [random.choice(_BOUND) for _ in range(parameters)]
    nulls = sum(1 << n for n in range(parameters) if random.random() < 0.1)
    data = nulls.to_bytes((parameters + 7) // 8, "little")
    if parameters:
        data += b"\1" + b"".join(kind.to_bytes(2, "little") for kind, _ in bound)
    data += b"".join(value for n, (_, value) in enumerate(bound) if not nulls >> n & 1)
    return Packet(0, b"\x17" + number + flags + b"\1\0\0\0" + data)


def _query(random: Random, odd: float = 0.4) -> list[Packet]:
    """A statement, as text or prepared; or several in one text, which is asked for first."""
    text = encoded(random, odd)
    if random.random() < 0.7:
        several = [Packet(0, b"\x1b\0\0")] if b";" in text and random.random() < 0.5 else []
        return [*several, Packet(0, b"\x03" + text)]
    chosen = random.choice((_FIRST_OWN, _FIRST_OWN, _FIRST_OWN + 1, 1, 1, 2, (1 << 32) - 1))
    number = chosen.to_bytes(4, "little")
    packets = [Packet(0, b"\x16" + text)]
    if random.random() < 0.05:
        packets.append(Packet(0, b"\x18" + number + random.choice((b"\0\0", b"\1\0")) + b"long"))
    packets.append(_execution(random, number, min(text.count(b"?"), 40)))
    if random.random() < 0.3:
        packets.append(Packet(0, b"\x1c" + number + random.choice((1, 5)).to_bytes(4, "little")))
    return packets


# --- the way there


def delivery(random: Random, pieces: list[bytes]) -> list[Step]:
    """How the packets travel: one by one, all at once, cut anywhere, a byte at a time."""
    steps: list[Step] = []
    style = random.random()
    if style < 0.55:
        for piece in pieces:
            steps += [("send", piece), ("pump", 0)]
    elif style < 0.65:
        steps += [("send", b"".join(pieces)), ("pump", 0)]
    elif style < 0.9:
        steps += _cut_up(random, b"".join(pieces))
    else:
        number = random.randrange(len(pieces)) if pieces else 0
        for place, piece in enumerate(pieces):
            if place == number and len(piece) < 400:
                steps += [
                    step for byte in piece for step in (("send", bytes((byte,))), ("turns", random.randint(0, 2)))
                ]
                steps.append(("pump", 0))
            else:
                steps += [("send", piece), ("pump", 0)]
    if random.random() < 0.1:
        steps.insert(random.randint(0, len(steps)), ("stop", 0))
        steps.insert(random.randint(0, len(steps)), ("read", 0))
    if random.random() < 0.03:
        steps.insert(random.randint(0, len(steps)), ("wait", random.choice((0.5, 3.0, 12.0, 40.0))))
    ending = random.random()
    if ending < 0.15:
        steps.append(("eof", 0))
    elif ending < 0.25:
        steps.insert(random.randint(0, len(steps)), ("cut", 0))
    return steps


def _cut_up(random: Random, data: bytes) -> list[Step]:
    cuts = sorted(random.randint(0, len(data)) for _ in range(random.randint(1, 8)))
    steps: list[Step] = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if start < end:
            steps += [("send", data[start:end]), random.choice((("turns", random.randint(0, 6)), ("pump", 0)))]
    return steps


def _compressed(random: Random, login: list[Packet], commands: list[Packet]) -> tuple[list[bytes], list[bytes]]:
    """A client that packs what it sends after its login, mostly as it should."""
    flags = int.from_bytes(login[0].payload[:4], "little") | w.COMPRESS
    first = Packet(login[0].seq, flags.to_bytes(4, "little") + login[0].payload[4:])
    pieces: list[bytes] = []
    for packet in commands:
        plain, seq = packet.encode(), random.choice((0, 0, 0, 0, 0, 1, 255, packet.seq))
        cut = random.randint(1, len(plain)) if random.random() < 0.2 else len(plain)
        for part in (plain[:cut], plain[cut:]):
            if part:
                pieces.append(w.compressed(part, seq, store=random.random() < 0.3))
                seq += 1
        if random.random() < 0.1:
            pieces[-1] = spoil_payload(random, pieces[-1], login=False)
        elif random.random() < 0.05:
            pieces[-1] = pieces[-1][:4] + random.choice((b"\xff\xff\xff", b"\1\0\0", b"\0\0\0")) + pieces[-1][7:]
    return [packet.encode() for packet in (first, *login[1:])], pieces


def encrypted(random: Random, login: list[Packet], commands: list[Packet]) -> list[Step]:
    """A client that asks for TLS first, and means it; mostly."""
    first = login[0]
    flags = int.from_bytes(first.payload[:4].ljust(4, b"\0"), "little") | w.SSL
    request = flags.to_bytes(4, "little") + first.payload[4:32].ljust(28, b"\0")
    behind = random.choice(
        (*[b""] * 9, first.encode(), w.framed(b"\x03SELECT 1"), b"\x16\x03\x01", random.randbytes(9))
    )
    steps: list[Step] = [("send", Packet(first.seq, request).encode() + behind), ("pump", 0)]
    if random.random() < 0.93:
        steps.append(("tls", 0))
    later = [Packet(packet.seq + 1 & 0xFF, packet.payload) for packet in login]
    later[0] = Packet(later[0].seq, request[:4] + later[0].payload[4:])
    steps += _as_sent(random, later, commands, random.random() < 0.9)
    if random.random() < 0.15:
        alert, record = b"\x15\x03\x03\0\2\1\0", b"\x17\x03\x03\xff\xff"
        raw = random.choice((random.randbytes(30), alert, record, w.framed(b"\x03SELECT 1")))
        steps.insert(random.randint(0, len(steps)), ("raw", raw))
    return steps


def _lie(random: Random, data: bytes) -> bytes:
    """Another length in a header, or anything in the bytes as they are."""
    changed = bytearray(data)
    if random.random() < 0.6:
        size = random.choice(
            (0, 1, len(data), len(data) - 5, len(data) - 3, 0xFFFFFF, 0xFFFFFE, random.getrandbits(24))
        )
        changed[:3] = max(0, size).to_bytes(3, "little")
        return bytes(changed)
    return spoil_payload(random, data, login=False)


def _huge(random: Random, steps: list[Step]) -> None:
    """A statement about the size of the largest packet, or a header that promises one."""
    size = random.choice((w.FULL - 1, w.FULL, w.FULL + 1, MAX_PACKET, MAX_PACKET + 1))
    data = w.framed(b"\x03/*" + b"x" * (size - 11) + b"*/SELECT"[:8])
    data = data[: random.choice((len(data), len(data), len(data) - 1, 5, 1000))]
    chunk = random.choice((1 << 18, 1 << 22))
    for start in range(0, len(data), chunk):
        steps += [("send", data[start : start + chunk]), ("turns", 2)]
    steps += [("pump", 0), ("send", w.framed(b"\x0e")), ("pump", 0)]


_SAID = (
    bytes(4),
    b"\xff\xff\xff",
    b"\x07\0\0\1\0\0\0\2\0\0\0",
    b"\x09\0\0\1\xff\x15\x04#28000",
    b"\1\0\0\1\xfb",
    b"\5\0\0\1\xfe\0\0\2\0",
)
"""What a server may say out of place: nothing, lengths, an OK, an error, a request for a file, an end."""


def spoils(random: Random) -> tuple[Spoil, ...]:
    """What the server does wrong."""
    found: list[Spoil] = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        argument = random.randbytes(2) + random.choice((*_SAID, random.randbytes(1), random.randbytes(6)))
        found.append((random.choice(KINDS), random.choice((0, 1, 1, 2, 2, 3, 4, 5, 6, 8)), argument))
    return tuple(found)


def compose(random: Random, world: str, scripts: list[Script], origin: str = "") -> Input:
    """One input."""
    talkative = [one for one in scripts if len(one.commands) >= COMMANDS_MAX]
    base = random.choice(talkative if random.random() < 0.9 else scripts)
    login, patient = list(base.login), True
    about_queues = random.random() < ABOUT_QUEUES
    commands = _about_queues(random, base) if about_queues else _some_with_queries(random, base)
    as_meant = about_queues and random.random() < 0.75
    if as_meant:
        pass  # what is wrong, if anything, is in what the statements say
    elif random.random() < 0.18:
        patient = random.random() < 0.4
        _spoil_login(random, login)
    else:
        _spoil_commands(random, commands, list(random.choice(scripts).commands))
    if world.endswith("+tls") and login and random.random() < 0.4:
        steps = encrypted(random, login, commands)
    else:
        steps = _as_sent(random, login, commands, patient and (as_meant or random.random() < 0.92))
    if random.random() < HUGE:
        _huge(random, steps)
    hostile = not world.startswith("embedded") and random.random() < (0.1 if as_meant else 0.25)
    return Input(world, base.name, tuple(steps), spoils(random) if hostile else (), origin)


def _about_queues(random: Random, base: Script) -> list[Packet]:
    """What is asked is made up, most of it about queues; now and then what a client sends first comes before it."""
    commands = _some(random, base.commands)[:1] if random.random() < 0.25 else []
    for _ in range(random.randint(2, COMMANDS_MAX)):
        commands += _query(random, odd=0.15)
    return commands


def _some_with_queries(random: Random, base: Script) -> list[Packet]:
    """What a client was recorded to send, with something made up in between."""
    commands = _some(random, base.commands)
    for _ in range(random.choice((0, 1, 1, 2))):
        at = random.randint(0, len(commands))
        commands[at:at] = _query(random)
    return commands


def _spoil_login(random: Random, login: list[Packet]) -> None:
    if login and random.random() < 0.8:
        at = random.choice((0, random.randrange(len(login))))
        login[at] = Packet(login[at].seq, spoil_payload(random, login[at].payload, login=at == 0))
    if not login or random.random() < 0.35:
        spoil_packets(random, login, [])


def _spoil_commands(random: Random, commands: list[Packet], others: list[Packet]) -> None:
    kind = random.random()
    if kind < 0.55 and commands:
        at = random.randrange(len(commands))
        commands[at] = Packet(commands[at].seq, spoil_payload(random, commands[at].payload, login=False))
    if 0.4 < kind < 0.85:
        for _ in range(random.choice((1, 1, 2))):
            spoil_packets(random, commands, others)


def _as_sent(random: Random, login: list[Packet], commands: list[Packet], patient: bool) -> list[Step]:
    """The bytes on their way; a patient client waits for its login before it goes on."""
    first, then = [packet.encode() for packet in login], [packet.encode() for packet in commands]
    if random.random() < 0.06 and login:
        first, then = _compressed(random, login, commands)
    if random.random() < 0.1 and first:
        lies = then or first
        at = random.randrange(len(lies))
        lies[at] = _lie(random, lies[at])
    if not patient:
        return delivery(random, [*first, *then])
    steps: list[Step] = [step for piece in first for step in (("send", piece), ("pump", 0))]
    return [*steps, *delivery(random, then)]


def _some(random: Random, commands: tuple[Packet, ...]) -> list[Packet]:
    """Neighbours, mostly: what follows is often about what was before. Sometimes picked at random."""
    if not commands:
        return []
    count = random.randint(1, COMMANDS_MAX)
    if random.random() < 0.7:
        start = random.randrange(len(commands))
        return list(commands[start : start + count])
    return [random.choice(commands) for _ in range(count)]
