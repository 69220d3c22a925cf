"""A server that is broken, or means harm: what it says is changed on its way to the gate, as an input says."""

from __future__ import annotations

from fuzz_input import Spoil
from fuzz_server import Spoiler

KINDS = ("flip", "cut", "die", "twice", "more", "split", "swap", "silent", "lie", "replace")


def spoiler(spoils: tuple[Spoil, ...]) -> Spoiler | None:
    """Applies each spoil to the thing it is meant for, counted from 0 (the greeting)."""
    if not spoils:
        return None
    held: list[bytes] = []
    count = -1

    def spoil(data: bytes) -> list[bytes | None]:
        nonlocal count
        count += 1
        pieces: list[bytes | None] = [data]
        for kind, number, argument in spoils:
            if number == count:
                pieces = [piece for given in pieces for piece in _spoiled(kind, argument, given, held)]
        return pieces

    return spoil


def _spoiled(kind: str, argument: bytes, data: bytes | None, held: list[bytes]) -> list[bytes | None]:
    if data is None:
        return [None]
    at = int.from_bytes(argument[:2], "little") % (len(data) + 1)
    rest = argument[2:]
    match kind:
        case "flip":
            changed = bytearray(data)
            for offset, byte in enumerate(rest):
                if at + offset < len(changed):
                    changed[at + offset] ^= byte
            return [bytes(changed)]
        case "cut":
            return [data[:at]]
        case "die":
            return [data[:at], None]
        case "twice":
            return [data, data]
        case "more":
            return [data[:at] + rest + data[at:]]
        case "split":
            return [data[:at], data[at:]]
        case "swap":
            held.append(data)
            return [held.pop(0)] if len(held) > 1 else []
        case "silent":
            return []
        case "lie":
            return [rest[:3].ljust(3, b"\0") + data[3:]]
        case "replace":
            return [rest]
    raise AssertionError(kind)
