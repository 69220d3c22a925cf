"""Records the corpus: real clients, a gate on each backend, and between them a socket that writes everything down.

    python tests/fuzz/fuzz_record.py            # all clients that can be run here; the others are named
    python tests/fuzz/fuzz_record.py pymysql go # some of them

Servers, accounts and data are made for the purpose: nothing in the corpus is anybody's secret.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import fuzz_paths  # noqa: F401
from fuzz_corpus import FOLDER, PRELUDE, Conversation, save
from fuzz_gates import gates
from fuzz_tours import TOURS, Missing
from servers import Gate, Sql

SEGMENTS_MAX = 400  # of one connection: a client that asks more says the same again


@dataclass
class Recorder:
    """Listens on `port` and passes everything on to `target`."""

    target: int
    conversations: list[list[tuple[bool, bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                thread = threading.Thread(target=self._carry, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, client: socket.socket) -> None:
        segments: list[tuple[bool, bytes]] = []
        self.conversations.append(segments)
        with client, socket.create_connection(("127.0.0.1", self.target)) as server, contextlib.suppress(OSError):
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(1 << 20)
                    if not data:
                        return
                    segments.append((side is client, _anywhere(data)))
                    (server if side is client else client).sendall(data)

    def close(self) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


def _anywhere(data: bytes) -> bytes:
    """The same without the name of the machine; a length in front of it stays right."""
    name = socket.gethostname().encode()
    return data.replace(bytes((len(name),)) + name, bytes((len(name),)) + b"h" * len(name))


def record(backend: str, gate: Gate, client: str, folder: Path) -> None:
    """One client's conversations with one gate."""
    owner = Sql(gate.connect())
    for statement in PRELUDE:
        owner(statement)
    owner.close()
    recorder = Recorder(gate.port)
    try:
        TOURS[client](recorder.port)
    except Missing as missing:
        print(f"NOT RECORDED: {client}, for want of: {missing}")
        return
    finally:
        recorder.close()
    for old in folder.glob(f"{backend}-{client}-[0-9]*.txt"):
        old.unlink()
    for number, segments in enumerate(recorder.conversations, 1):
        path = save(Conversation(f"{backend}-{client}-{number}", tuple(segments[:SEGMENTS_MAX])), folder)
        print(f"{path.name}: {len(segments)} segments, {sum(len(data) for _, data in segments)} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(TOURS)}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    with gates() as running:
        for client in given.clients or TOURS:
            for backend, gate in running.items():
                record(backend, gate, client, given.folder)


if __name__ == "__main__":
    main()
