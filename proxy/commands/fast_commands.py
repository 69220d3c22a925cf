"""FastCommands: which command the relay may pass on from inside the client's socket callback, without waking a task.

Invariant: a command takes the fast path only where everything that it does is known before it is sent, and nothing of
the session waits to be done with it; unsure means no.
"""

from __future__ import annotations

from mysql_mimic.types import Commands

from mysql_wire import requests
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, frame
from mysql_wire.requests import FIRST_LOCAL_ID
from proxy.commands.upstream_statements import UpstreamStatements
from proxy.session.session import Reach
from proxy.statements.births import LeasedInsert
from proxy.statements.executor import Executor
from proxy.statements.prepared_inserts import PreparedInsert
from proxy.upstream.fast_path import FastPath
from proxy.upstream.repeats import stands_alone
from rewriter.grammar.quick_forms import VERBS
from rewriter.plan import NO_EFFECTS, Effects, Execute, TransactionVerb
from rewriter.scan.scanner import StatementClass, transaction_verb

_QUICK_VERBS = tuple(verb.encode("ascii") for verb in VERBS)
# Plain numbers: an enum's members cost more to compare than the rest of the decision.
_QUERY, _EXECUTE, _PING = int(Commands.COM_QUERY), int(Commands.COM_STMT_EXECUTE), int(Commands.COM_PING)


class FastCommands:
    """See the module. `effects`, `verb`, `sent_at` and `leased` are those of the command on the fast path, where its
    end is reported."""

    def __init__(self, executor: Executor, statements: UpstreamStatements) -> None:
        self.effects = NO_EFFECTS
        self.verb: TransactionVerb | None = None
        self.sent_at: float | None = None
        self.leased: LeasedInsert | None = None
        self._executor = executor
        self._session = executor.session
        self._statements = statements

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        """See RelayListener: whether this command, one whole small packet, may go straight to the database, or what in
        its place. Never raises."""
        session = self._session
        if session.notes or not (session.scope.empty or command == _QUERY):
            return FastPath.REFUSE
        if command == _QUERY and not session.admin and self._executor.database.transactions.full(session.identity.user):
            return FastPath.REFUSE  # it may be a BEGIN
        if command == _QUERY:
            text = requests.query_text(packet[5:], session.identity.capabilities)
            if text is None:
                return FastPath.REFUSE
            if text.startswith(_QUICK_VERBS):
                return self._quickly(text)
            reader = self._executor.reader
            classification = reader.classify(text)
            if classification.kind is StatementClass.NONE:
                if not session.scope.empty:
                    return self._in_transaction(text)
                return FastPath.REFUSE if self._may_begin(text) else FastPath.RELAY
            if classification.kind is StatementClass.USE and session.scope.empty and reader.names_again(text):
                session.settings.streams.forget()
                return FastPath.RELAY
            if classification.kind is not StatementClass.TOUCHES:
                return FastPath.REFUSE
            leased = self._executor.births.leased(text, classification.effects, packet)
            return self._in_place(leased, classification.effects) or self._with_effects(classification.effects)
        if command == _EXECUTE:
            number = int.from_bytes(packet[5:9], "little")
            if number >= FIRST_LOCAL_ID:
                return FastPath.REFUSE
            effects = self._statements.effects.get(number)
            if effects is None:
                return FastPath.REFUSE if self._may_begin(b"") else FastPath.RELAY
            if number in self._statements.inserts:
                return self._insert(self._statements.inserts[number], packet, effects)
            verdict = self._with_effects(effects)
            return packet if verdict is not FastPath.REFUSE and number in self._statements.repeatable else verdict
        return FastPath.RELAY if command == _PING else FastPath.REFUSE

    def _in_transaction(self, text: bytes) -> FastPath:
        """Of a statement that does nothing to queues, in a transaction that has: it may end it, or undo a part."""
        if self._executor.database.unlimited:
            return FastPath.REFUSE
        self.verb, self.sent_at = transaction_verb(text, backslash_escapes=not self._session.no_backslash_escapes), None
        return FastPath.RELAY_AND_REPORT

    def _quickly(self, text: bytes) -> FastPath | bytes:
        """What goes to the database in place of a statement on a queue, where that is known at once."""
        plan = None if self._may_begin(b"") else self._executor.reader.quick(text)
        sql = None if plan is None else plan.sql if plan.at_shards is None else self._routed(plan)
        if plan is None or sql is None:
            return FastPath.REFUSE
        self.effects, self.sent_at = plan.effects, self._session.sending(plan.effects)
        return frame(self._executor.database.query(self._session.pinned(sql, plan.pins).encode("ascii")))

    def _routed(self, plan: Execute) -> str | None:
        """Its SQL at the one shard that has its messages, where that is known, and it is a transaction by itself."""
        session = self._session
        if session.settings.reach is not Reach.ONE or not stands_alone(session.upstream.status):
            return None
        routes = self._executor.database.routes(plan)
        return plan.routed(*routes.values()) if routes is not None and len(routes) == 1 else None

    def _may_begin(self, text: bytes) -> bool:
        """Whether a statement that does nothing to queues is to be limited to one shard before, with what follows."""
        database = self._executor.database
        return database.unlimited and database.may_span_shards(verb=transaction_verb(text))

    def _insert(self, insert: PreparedInsert, packet: bytes, effects: Effects) -> FastPath | bytes:
        """An execution of a prepared INSERT."""
        payload = packet[HEADER_BYTES:]
        completed = insert.completed(payload, self._session.identity.capabilities)
        own = packet if completed is payload else frame(completed)
        leased = self._executor.births.leased_execution(insert, completed, effects, own)
        if in_place := self._in_place(leased, effects):
            return in_place
        verdict = self._with_effects(effects)
        return verdict if own is packet or verdict is FastPath.REFUSE else own

    def _in_place(self, leased: LeasedInsert | None, effects: Effects) -> bytes:
        """What goes to the database in place of an INSERT of a message that a receiver waits for."""
        if leased is None:
            return b""
        self.effects, self.sent_at, self.leased = effects, None, leased
        return frame(self._executor.database.query(leased.text))

    def refused(self, error: Outcome) -> bytes:
        """See RelayListener: the client's own command, in place of that with a lease."""
        leased = self.leased
        if leased is None or not self._executor.births.refused(leased.birth, error):
            return b""
        self.leased = None
        return leased.own

    def _with_effects(self, effects: Effects) -> FastPath:
        if effects.catalog or effects.numbered or self._executor.database.may_span_shards(effects, effects.transaction):
            return FastPath.REFUSE
        self.effects, self.sent_at = effects, self._session.sending(effects)
        return FastPath.RELAY_AND_REPORT
