"""The same inputs over real sockets, against a gate that is a process: what threads, kernels and loops add to it.

    python tests/fuzz/fuzz_sockets.py --inputs 20000              # both backends, a MariaDB of its own
    python tests/fuzz/fuzz_sockets.py --inputs 2000 --seed 7 --backend embedded

Slower by far than the fuzzer on a loop of its own, and it sees less: whether the process lives, what it logs, what it
holds in memory and open files, and whether a healthy client is served after every batch.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom

import fuzz_paths  # noqa: F401
import fuzz_wire as w
from fuzz_corpus import PRELUDE, Conversation, load_all
from fuzz_gate import nonces_of
from fuzz_gates import BACKENDS, gates, share_out
from fuzz_input import Input
from fuzz_mutate import compose, script
from fuzz_server import ACCOUNTS
from servers import Gate, Sql, wait_until

BATCH = 100
AT_ONCE = 20  # clients; enough that they meet each other in the gate
IDLE_SECONDS = 0.004  # a gate that has said nothing for so long waits for the client, mostly
RSS_GROWTH_MAX = 200 << 20
FILES_MORE_MAX = 80  # the embedded backend keeps sixteen readers for reuse, of some files each


class Attack:
    """Many inputs against one gate."""

    def __init__(self, gate: Gate, corpus: str, seed: int) -> None:
        self.gate, self.seed, self.corpus = gate, seed, corpus
        self.conversations = {one.name: one for one in load_all(corpus)}
        self.scripts = [script(one) for one in self.conversations.values()]

    def input(self, number: int) -> Input:
        random = Random(f"{self.seed}/sockets/{self.corpus}/{number}")
        return compose(random, self.corpus, self.scripts, f"seed={self.seed} number={number}")

    def run(self, numbers: range) -> Iterator[int]:
        """Batch by batch; raises AssertionError with the numbers of the batch in which something went wrong."""
        self._prepare()
        self._healthy()
        files, rss = self._open_files(), self.gate.rss_bytes()
        for start in range(numbers.start, numbers.stop, BATCH):
            batch = range(start, min(start + BATCH, numbers.stop))
            try:
                asyncio.run(self._batch(batch))
                self._healthy()
                wait_until(
                    lambda: self._open_files() <= files + FILES_MORE_MAX, 60, "the gate to close what it had opened"
                )
                assert self.gate.rss_bytes() - rss < RSS_GROWTH_MAX, (
                    f"{self.gate.rss_bytes() - rss} bytes more are held"
                )
                assert "Traceback" not in self.gate.log, self.gate.log[-4000:]
            except AssertionError as error:
                raise AssertionError(f"seed {self.seed}, inputs {batch} of {self.corpus}: {error}") from error
            yield len(batch)

    # --- one client

    async def _batch(self, numbers: range) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with room:
                await self._play(self.input(number))

        await asyncio.gather(*(one(number) for number in numbers))

    async def _play(self, given: Input) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gate.port)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        renew, ended = Renewal(self.conversations[given.conversation]), False
        try:
            renew.heard(await heard(reader))
            for name, value in given.steps:
                if name == "send" and isinstance(value, bytes):
                    if not ended:  # a mutation may have put the end before the rest
                        writer.write(renew.said(value))
                elif name == "pump":
                    renew.heard(await heard(reader))
                elif name == "turns":
                    await asyncio.sleep(0)
                elif name == "eof":
                    writer.write_eof()
                    ended = True
                elif name == "cut":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
            await heard(reader)
        except (OSError, EOFError):
            pass  # hung up on, as it may have deserved
        finally:
            writer.transport.abort()

    # --- the gate

    def _prepare(self) -> None:
        owner = Sql(self.gate.connect())
        for statement in PRELUDE:
            owner(statement)
        owner.close()

    def _healthy(self) -> None:
        assert self.gate.process is not None and self.gate.process.poll() is None, "the gate is gone"
        client = Sql(self.gate.connect(connect_timeout=20, read_timeout=20))
        assert client.value("SELECT 4711") == 4711
        client.close()

    def _open_files(self) -> int:
        assert self.gate.process is not None
        return len(list(Path(f"/proc/{self.gate.process.pid}/fd").iterdir()))


class Renewal:
    """Puts the proofs that this login takes in the place of those that were recorded."""

    def __init__(self, conversation: Conversation) -> None:
        self._recorded = list(nonces_of(conversation))
        self._proofs: dict[bytes, bytes] = {}
        self._greeted = False

    def heard(self, data: bytes) -> None:
        for packet in w.packets_of(data)[0]:
            payload = packet.payload
            if not self._greeted:
                self._greeted = True
                if payload[:1] == b"\x0a":
                    self._learn(w.nonce_of(payload))
            elif payload[:1] == b"\xfe" and len(payload) > 30:
                self._learn(payload[1:].partition(b"\0")[2][:20])

    def _learn(self, nonce: bytes) -> None:
        if self._recorded and len(nonce) == 20:
            old = self._recorded.pop(0)
            for password in filter(None, ACCOUNTS.values()):
                for proof in (w.native_proof, w.sha2_proof):
                    self._proofs[proof(password, old)] = proof(password, nonce)

    def said(self, data: bytes) -> bytes:
        for old, new in self._proofs.items():
            data = data.replace(old, new)
        return data


async def heard(reader: asyncio.StreamReader) -> bytes:
    """What comes until nothing comes any more."""
    data = b""
    while True:
        try:
            chunk = await asyncio.wait_for(reader.read(1 << 16), IDLE_SECONDS)
        except TimeoutError:
            return data
        if not chunk:
            raise EOFError
        data += chunk


def attack(backend: str, seed: int, numbers: range) -> bool:
    """These inputs, against a gate of their own; says how far it is, and what is wrong."""
    done, began = 0, time.monotonic()
    with gates((backend,)) as running:
        try:
            for count in Attack(running[backend], backend, seed).run(numbers):
                done += count
                if done % 2000 < count:
                    print(f"{backend}: {done} inputs in {time.monotonic() - began:.0f} s", flush=True)
        except AssertionError as error:
            print(f"FAILED: {error}", flush=True)
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000, help="for each backend")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    given = parser.parse_args()
    seed = SystemRandom().getrandbits(32) if given.seed is None else given.seed
    backends = tuple(given.backend or BACKENDS)
    print(f"seed {seed}, {given.inputs} inputs over sockets for each of {', '.join(backends)}", flush=True)
    return 0 if share_out(attack, seed, given.inputs, backends, given.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
