"""An input of the fuzzer: what a client sends and does, step by step, and how the server spoils its answers.

Kept as text that says everything: a file of it is replayed by one command, and can be read and cut by hand.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from pathlib import Path

Step = tuple[str, bytes | int | float]
"""What the client does next:

send bytes      as one segment
turns n, pump 0 let the gate run so many turns of its loop, or until it has no more to do
read 0, stop 0  take what the gate sends, or leave it
eof 0, cut 0    half close, hang up
wait s          let seconds pass
"""

Spoil = tuple[str, int, bytes]
"""What the server does to the n-th thing it says: ("flip", n, argument), ("cut", n, argument) ...; see `fuzz_spoil`."""


@dataclass(frozen=True, slots=True)
class Input:
    """See the module. `world` is "embedded" or "relay"; `conversation` lends greeting, nonces and answers."""

    world: str
    conversation: str
    steps: tuple[Step, ...]
    spoils: tuple[Spoil, ...] = ()
    origin: str = field(default="", compare=False)

    @property
    def sent(self) -> bytes:
        return b"".join(value for name, value in self.steps if name == "send" and isinstance(value, bytes))

    def without(self, start: int, count: int) -> Input:
        return replace(self, steps=self.steps[:start] + self.steps[start + count :])


def dump(inputs: list[Input]) -> str:
    """A file's text. Several inputs are played one after the other in one gate."""
    lines = ["# Replay: python tests/fuzz/fuzz_run.py --replay FILE"]
    for one in inputs:
        lines += [f"input {one.world} {one.conversation} {one.origin}".rstrip()]
        lines += [f"  {name} {value!r}" for name, value in one.steps]
        lines += [f"  spoil {spoil!r}" for spoil in one.spoils]
    return "\n".join(lines) + "\n"


def parse(text: str) -> list[Input]:
    found: list[Input] = []
    for line in text.splitlines():
        if line.startswith("input "):
            world, conversation, *origin = line.split(" ", 3)[1:]
            found.append(Input(world, conversation, (), (), origin[0] if origin else ""))
        elif line.startswith("  "):
            name, _, value = line[2:].partition(" ")
            one, literal = found[-1], ast.literal_eval(value)
            if name == "spoil":
                found[-1] = replace(one, spoils=(*one.spoils, literal))
            else:
                found[-1] = replace(one, steps=(*one.steps, (name, literal)))
    return found


def load(path: Path) -> list[Input]:
    return parse(path.read_text())
