"""Conversations that real clients had with a gate, kept as text: `corpus/*.txt`, one connection each.

A line is one segment as it came from a socket: who sent it (`C`lient or `S`erver) and the bytes as Python writes them.
`fuzz_record.py` makes the files; nobody edits them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fuzz_wire import Packet, packets_of

FOLDER = Path(__file__).parent / "corpus"
PRELUDE = (
    "DROP TABLE IF EXISTS fq, fq_dead, fg, ft, queuegate_groups",
    "CREATE QUEUE fq (payload VARCHAR(100))",
    "CREATE QUEUE fq_dead (payload VARCHAR(100))",
    "CREATE QUEUE fg (payload VARCHAR(100)) WITH (group_key = 'payload')",
    "CREATE TABLE ft (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50), n DECIMAL(10,2), d DATETIME, b BLOB)",
    "INSERT INTO ft (name, n, d, b) VALUES ('one', 1.25, '2026-01-02 03:04:05', x'00ff'), ('two', NULL, NULL, NULL)",
    "INSERT INTO fq (payload) VALUES ('a'), ('b'), ('c'), ('d'), ('e')",
    "INSERT INTO fq_dead (id, payload) VALUES (101, 'a'), (102, 'b')",
    "INSERT INTO fg (payload) VALUES ('a'), ('a'), ('b')",
    "INSERT INTO fq (payload) VALUES ('held') AFTER GROUP 'a' OF fg",
)
"""What is there when a tour begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """One connection. `segments` are (from the client?, bytes). Each is only equal to itself."""

    name: str
    segments: tuple[tuple[bool, bytes], ...]

    @property
    def embedded(self) -> bool:
        return self.name.startswith("embedded")

    @property
    def greeting(self) -> bytes:
        """The server's first packet."""
        return packets_of(self.segments[0][1])[0][0].payload

    def turns(self) -> list[tuple[list[Packet], list[Packet]]]:
        """What the client sent before it waited, and what it got for it; the greeting is left out."""
        turns: list[tuple[list[Packet], list[Packet]]] = []
        for client, data in joined(self.segments[1:]):
            packets = packets_of(data)[0]
            if client:
                turns.append((packets, []))
            elif turns:
                turns[-1][1].extend(packets)
        return turns


def joined(segments: Iterable[tuple[bool, bytes]]) -> list[tuple[bool, bytes]]:
    """Neighbours of the same side put together: packets may be cut anywhere."""
    found: list[tuple[bool, bytes]] = []
    for client, data in segments:
        if found and found[-1][0] == client:
            found[-1] = client, found[-1][1] + data
        else:
            found.append((client, data))
    return found


def save(conversation: Conversation, folder: Path = FOLDER) -> Path:
    """Write a file; returns where."""
    path = folder / f"{conversation.name}.txt"
    path.write_text("".join(f"{'C' if client else 'S'} {data!r}\n" for client, data in conversation.segments))
    return path


def load(path: Path) -> Conversation:
    lines = path.read_text().splitlines()
    return Conversation(path.stem, tuple((line[0] == "C", ast.literal_eval(line[2:])) for line in lines))


def load_all(prefix: str = "", folder: Path = FOLDER) -> list[Conversation]:
    """Every conversation of a backend, in the order of their names."""
    return [load(path) for path in sorted(folder.glob(f"{prefix}*.txt"))]
