"""Plays one input to a world and says what was wrong: the oracle.

1. Nothing reaches the loop's exception handler, nor the log at ERROR.
2. Whoever sent a whole command gets a whole answer, or is hung up on; every packet can be explained (`fuzz_judge`).
3. A client that hung up leaves nothing behind: no task, no timer, no place that is counted, no line to the database.
4. What a client that sends much, or reads nothing, makes the gate hold is bounded.
5. Nothing is executed for a client before its login was answered with OK, nor after a refusal, nor while its user is
   being changed; and a login with a password succeeds only if the right proof was sent.
6. Nothing is executed that the client did not send, or that does not follow from it.
"""

from __future__ import annotations

from typing import cast

import fuzz_wire as w
from fuzz_corpus import Conversation
from fuzz_gate import MAX_PACKET, EmbeddedWorld, RelayWorld, World
from fuzz_input import Input
from fuzz_judge import Judge, Verdict
from fuzz_loop import BusyLoop, FuzzTransport
from fuzz_provenance import FORBIDDEN, Provenance, tables_in
from fuzz_server import ACCOUNTS, StandIn
from fuzz_spoil import spoiler
from fuzz_tls import TlsClient

from proxy.transport.client_socket import ClientSocket

PATIENCE = 60.0  # virtual seconds until an answer is overdue: more than a login, a lock or a stalled packet may take
LOGIN_SECONDS = 15.0  # the limit is ten; then the last words have two more to arrive
AFTERWARDS = 100.0  # and until a client that is gone is forgotten
HELD_MAX = 2 * (256 << 10) + 4 * MAX_PACKET  # bytes for one client, whatever it does: its packets and what is unread


class Played:
    """One input on its way through a world."""

    def __init__(self, world: World, conversation: Conversation, given: Input) -> None:
        self.world, self.loop, self.given = world, world.loop, given
        self.transport: FuzzTransport = world.enter(conversation, spoiler(given.spoils))
        self.stream = cast(ClientSocket, self.transport.protocol)
        self.sent = b""
        self.marks: list[tuple[int, int]] = []
        self.complaints: list[str] = []
        self.half_closed = self.cut = self.line_broken = False
        self.tls: TlsClient | None = None
        self.verdict = Verdict()

    @property
    def shown(self) -> int:
        return len(self.transport.output) if self.tls is None else self.tls.start + len(self.tls.heard)

    def _got(self) -> bytes:
        """All that the gate said, in clear."""
        output = bytes(self.transport.output)
        return output if self.tls is None else output[: self.tls.start] + self.tls.heard

    def run(self) -> list[str]:
        try:
            self.loop.pump()
            for name, value in self.given.steps:
                self._step(name, value)
            self._finish()
        except BusyLoop as error:
            self.complaints.append(str(error))
        except Exception as error:
            # Callbacks that a loop would call are called here, so what they raise arrives here.
            self.complaints.append(f"raised: {error!r}")
            raise
        return self.complaints

    def _step(self, name: str, value: bytes | int | float) -> None:
        transport = self.transport
        if name == "send" and isinstance(value, bytes):
            self._send(value)
        elif name == "raw" and isinstance(value, bytes):
            self.line_broken = self.line_broken or self.tls is not None
            transport.deliver(value)
        elif name == "tls":
            self.tls = TlsClient(self.loop, transport)
            self.tls.shake_hands()
        elif name == "turns":
            self.loop.turns(int(value))
        elif name == "pump":
            self.loop.pump()
        elif name == "read":
            transport.read()
        elif name == "stop":
            transport.stop_reading()
        elif name == "eof":
            self.half_closed = True
            transport.deliver(None)
        elif name == "cut":
            self.cut = True
            transport.hang_up()
        elif name == "wait":
            self.loop.advance(float(value))
        if len(transport.unread) > HELD_MAX:
            self.complaints.append(f"{len(transport.unread)} bytes are held for a client that does not read")

    def _send(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.hear()
        self.marks.append((self.shown, len(self.sent)))
        if self.transport.lost or self.half_closed:
            return
        self.sent += data
        if self.tls is None:
            self.transport.deliver(data)
        else:
            self.tls.say(data)

    # --- the end

    def _finish(self) -> None:
        transport = self.transport
        transport.read()
        self.loop.pump()
        verdict = self._judged()
        if verdict.unanswered is not None and not self.given.spoils:
            self.loop.advance(PATIENCE, lambda: transport.lost)
            verdict = self._judged()
        self.verdict = verdict
        self._check_ends(verdict)
        self._check_answers(verdict)
        self._check_memory()
        transport.hang_up()
        self.loop.pump()
        if self.world.busy:
            self._let_go()
        self._check_execution(verdict)
        self.complaints += self.world.unrest()

    def _let_go(self) -> None:
        """The client is gone; a server that says nothing may keep a statement going, until it goes too."""
        self.loop.advance(2.0, lambda: not self.world.busy)
        if isinstance(self.world, RelayWorld) and self.world.busy:
            if not self.given.spoils:
                self.complaints.append("a client that is gone still has a line to the database")
            for server in self.world.servers:
                server.hang_up()
            self.loop.pump()
            if len(self.world.servers) > 1 and not self.world.servers[-1].gone:
                self.complaints.append("a line to the database was opened for a client that is gone")
        self.loop.advance(AFTERWARDS, lambda: not self.world.busy)

    def _check_ends(self, verdict: Verdict) -> None:
        """Nobody is kept who has not logged in in time, nor whose line to the database is gone."""
        world = self.world
        if verdict.entered is None and not self._closed:
            self.loop.advance(LOGIN_SECONDS, lambda: self._closed)
            if world.logging_in:
                self.complaints.append("a client that does not log in is kept for ever")
        elif world.kind == "relay" and isinstance(world, RelayWorld) and not self._closed and world.lost_line:
            self.loop.advance(PATIENCE, lambda: self._closed)
            if not self._closed:
                self.complaints.append(f"a client is kept whose line to the database is gone: {self.stream!r}")

    @property
    def _closed(self) -> bool:
        return self.transport.lost or self.transport.eof_written

    def _judged(self) -> Verdict:
        if self.tls is not None:
            self.tls.hear()
        got = self._got()
        kind = self.world.kind
        marks = [*self.marks, (len(got) + 1, len(self.sent))]
        judge = Judge(
            self.sent,
            got,
            marks,
            kind == "relay",
            MAX_PACKET,
            encrypted=self.tls is not None,
            relayed=kind != "embedded",
        )
        return judge.verdict()

    def _check_answers(self, verdict: Verdict) -> None:
        if self.given.spoils:
            return  # what a broken server says is passed on as it is
        if self.tls is not None and self.tls.failed:
            return  # what was said after it was heard by nobody
        if not self.cut and not verdict.corrupt:
            self.complaints += verdict.complaints
        if verdict.unanswered is None or self.transport.lost or self.transport.eof_written or self.half_closed:
            return
        if not verdict.waits_for_client and not _endless(verdict.unanswered):
            self.complaints.append(f"no answer to {verdict.unanswered[:80]!r}")

    def _check_memory(self) -> None:
        stream = self.stream
        held = stream.commands.unread + stream.commands._continued.size + len(stream._out)
        if held > HELD_MAX:
            self.complaints.append(f"{held} bytes are held for one client: {stream!r}")

    # --- what was executed

    def _check_execution(self, verdict: Verdict) -> None:
        """`verdict` where nothing was spoilt; of a broken server only what it saw itself is judged."""
        world = self.world
        logins = w.packets_of(self.sent)[0][: 1 if self.tls is None else 2]
        compressed = verdict.compressed or any(int.from_bytes(p.payload[:4], "little") & w.COMPRESS for p in logins)
        unread = self.tls is not None and not verdict.plain  # its answers, by which it is known where that began
        if verdict.corrupt or (compressed and (self.given.spoils or unread)):
            return  # what was sent cannot be told, nor, from what a broken server said, where compression began
        provenance = Provenance(verdict.plain or self.sent)
        if world.kind != "relay":
            self._check_proof(verdict)
        if isinstance(world, EmbeddedWorld):
            for sql, shown in world.executed:
                if not verdict.may_run(shown) and not self.cut and not self._unclear(verdict):
                    self.complaints.append(f"executed for a client that is not in: {sql!r}")
                if not provenance.explains_sql(sql):
                    self.complaints.append(f"executed and never sent: {sql!r}")
        if isinstance(world, RelayWorld):
            for server in world.servers:
                self.complaints += [] if self.given.spoils else server.offences
                self._check_rights(server)
                for payload, shown in server.commands:
                    said = payload == b"\x01" or self.given.spoils or self.cut  # the goodbye is the gate's own
                    said = said or self._unclear(verdict)
                    if not said and not verdict.may_run(shown):
                        self.complaints.append(f"executed for a client that is not in: {payload[:1500]!r}")
                    if not provenance.explains(payload):
                        self.complaints.append(f"reached the server and was never sent: {payload[:1500]!r}")

    def _unclear(self, verdict: Verdict) -> bool:
        """An encrypted line that was in, or broke: bytes shown and bytes judged are not the same.

        A line that breaks takes the gate's last words along: who proved who he is may have been in, unheard.
        """
        if self.tls is None:
            return False
        unheard = (self.line_broken or self.half_closed) and self._proved()
        return verdict.entered is not None or self.tls.failed or unheard

    def _check_rights(self, server: StandIn) -> None:
        """An account that is limited to one queue has nothing else looked at or changed."""
        for payload, _ in server.commands if server.limited else ():
            others = FORBIDDEN & tables_in(payload[1:]) if payload[:1] in (b"\x03", b"\x16", b"\x04") else set()
            if others:
                self.complaints.append(f"{others} reached by an account without a right to it: {payload[:200]!r}")

    def _check_proof(self, verdict: Verdict) -> None:
        """Somebody is in: then it is somebody without a password, or the right proof was sent."""
        if verdict.entered is not None and not self._proved():
            self.complaints.append("a login without the right proof")

    def _proved(self) -> bool:
        if b"root\0" in self.sent:
            return True
        nonces = tuple(_nonces(self._got()))
        passwords = tuple(filter(None, ACCOUNTS.values()))
        proofs = (prove(p, n) for p in passwords for n in nonces for prove in (w.native_proof, w.sha2_proof))
        return any(proof in self.sent for proof in proofs)


def _endless(command: bytes) -> bool:
    """Whether this may be a stream: its text says so, or it is a statement that the gate itself has prepared."""
    ours = command[:1] in (b"\x17", b"\x1c") and len(command) > 4 and command[4] & 0x80
    return bool(ours) or b"stream" in command.lower()


def _nonces(got: bytes) -> list[bytes]:
    packets = w.packets_of(got)[0]
    found = [w.nonce_of(packets[0].payload)]
    return found + [p.payload[1:].partition(b"\0")[2][:20] for p in packets if p.payload[:1] == b"\xfe"]


def play(world: World, conversation: Conversation, given: Input) -> list[str]:
    """All that was wrong with how the world took this input."""
    with world.loop.running():
        return Played(world, conversation, given).run()
