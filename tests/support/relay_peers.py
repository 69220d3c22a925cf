"""A RelayUpstream between two recorded sockets, and the answers of a server that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from wire_peers import RecordingTransport, packet, settle

from engine.model.queue import ColumnMeta
from mysql_wire import replies
from mysql_wire.flags import DEPRECATE_EOF
from mysql_wire.outcome import Outcome
from mysql_wire.status_flags import MORE_RESULTS
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.fast_path import FastPath
from proxy.upstream.relay import RelayUpstream

QUERY = b"\x03SELECT 1"
BEGUN = 0x0003  # in transaction, autocommit


def answer(payloads: Iterable[bytes], first: int = 1) -> bytes:
    return b"".join(packet(p, n & 255) for n, p in enumerate(payloads, first))


def ok(status: int = BEGUN, affected_rows: int = 0) -> bytes:
    return replies.ok_packet(0, status=status, affected_rows=affected_rows)


def err(message: str = "no") -> bytes:
    return replies.err_packet(0, 1146, "42S02", message)


def result(capabilities: int, rows: Iterable[bytes] = (b"\x01a", b"\xfb"), status: int = BEGUN) -> list[bytes]:
    payloads = [
        replies.column_count(1, capabilities),
        replies.column_definition(ColumnMeta("näme", 0xFD, table="t"), capabilities),
    ]
    if not capabilities & DEPRECATE_EOF:
        payloads.append(replies.eof_packet(status=status))
    return [*payloads, *rows, replies.end_packet(capabilities, status=status)]


class Relay:
    """A relay between two recorded sockets."""

    def __init__(self, capabilities: int = DEPRECATE_EOF, *, fast: bool = False, loss_hint: str = "") -> None:
        self.stream = ClientSocket(lambda stream: None, max_packet_bytes=64 << 20)
        self.client = RecordingTransport(self.stream)
        self.stream.connection_made(self.client)
        self.link = BackendSocket()
        self.server = RecordingTransport(self.link)
        self.link.connection_made(self.server)
        self.answers: list[tuple[int, Outcome]] = []
        self.losses: list[Outcome] = []
        self.closing_errors: list[bytes] = []
        self.decisions: list[tuple[int, bytes]] = []
        self.fast = fast
        self.instead: bytes | None = None  # what goes to the server in place of a fast command
        self.own = b""  # what goes to the server where it refuses that
        self.refusals: list[int] = []
        self.upstream = RelayUpstream(
            self.link,
            self.stream,
            capabilities=capabilities,
            status=2,
            loss_hint=loss_hint,
        )
        self.upstream.attach(self)
        self.stream.fast_path = self.upstream.try_fast

    def refused(self, error: Outcome) -> bytes:
        self.refusals.append(error.errno)
        own, self.own = self.own, b""
        return own

    def relayed(self, command: int, outcome: Outcome) -> None:
        self.answers.append((command, outcome))

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        self.losses.append(outcome)

    client_stays = False

    def on_closing_error(self, packet: bytes) -> None:
        self.closing_errors.append(packet)

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        self.decisions.append((command, packet[5:]))
        if not self.fast:
            return FastPath.REFUSE
        return FastPath.RELAY_AND_REPORT if self.instead is None else self.instead

    async def begin(
        self, payload: bytes = QUERY, *, seq: int = 1, more: bool = False, buffered: bool = False
    ) -> asyncio.Task[Outcome]:
        """A command under way, as after the client's packets have been read up to `seq`."""
        self.stream.seq = seq
        task = asyncio.create_task(self.upstream.command(payload, more=more, buffered=buffered))
        await settle()
        return task

    async def parked(self) -> asyncio.Task[bytes]:
        """A command reader that sleeps, so that the fast path is open."""
        task = asyncio.create_task(self.stream.read_command())
        await settle()
        return task


def mark(payload: bytes) -> bytes:
    """The status flags of an OK (one-byte numbers) or EOF packet, with MORE_RESULTS."""
    at = 3
    return payload[:at] + bytes((payload[at] | MORE_RESULTS,)) + payload[at + 1 :]
