"""SessionBirths: which of a client's INSERTs are sent with a lease for a receiver that waits (engine.delivery.births).

Only where the text alone says what the statement does, or a prepared one with its values: it is a transaction of its
own, of one row of literals, by an account whose statements are not judged one by one, in a session whose settings are
known. What the database refuses is sent as the client wrote it, and the client gets that answer.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.delivery.births import Birth
from engine.engine import Engine
from engine.model.errors import INTERRUPTED, LOCKED
from engine.model.queue import QueueName
from engine.store.catalog import LEASE_COLUMNS
from mysql_wire.outcome import Outcome
from proxy.session.session import ClientSession
from proxy.statements.database_commands import CONNECTION_LOST, DatabaseCommands
from proxy.statements.planning import Planning
from proxy.statements.prepared_inserts import PreparedInsert
from proxy.statements.reader import DENIED, StatementReader
from proxy.upstream.repeats import stands_alone
from rewriter.plan import Effects
from rewriter.text.long_text import LONG_TEXT

_NOT_BY_THE_LEASE = INTERRUPTED | LOCKED | {1053, 1062}  # also a shutdown, and a duplicate: no unique key has a lease


class LeasedInsert(NamedTuple):
    """What is sent in place of a client's `own` packet, where it has one, and what it is born with."""

    text: bytes
    birth: Birth
    own: bytes


class SessionBirths:
    """See the module."""

    def __init__(
        self,
        session: ClientSession,
        engine: Engine,
        planning: Planning,
        reader: StatementReader,
        database: DatabaseCommands,
    ) -> None:
        self._session, self._engine, self._planning, self._reader = session, engine, planning, reader
        self._database = database
        self._none_in: set[QueueName] = set()  # tables that this account may not write so, or that are others here
        self._as = session.identity

    def leased(self, text: bytes, effects: Effects, own: bytes = b"") -> LeasedInsert | None:
        """The INSERT with a lease; None where it is to be sent as it is. `effects`: the scanner's. What became of the
        birth must be reported to the engine."""
        birth = self._offered(effects, len(text))
        return None if birth is None else self._born_of(birth, text, own)

    def leased_execution(
        self, insert: PreparedInsert, payload: bytes, effects: Effects, own: bytes = b""
    ) -> LeasedInsert | None:
        """As `leased`, of a prepared INSERT: its text, with the values. `payload`: the execution, completed."""
        session = self._session
        if insert.database != session.database:
            return None
        birth = self._offered(effects, len(payload))
        if birth is None:
            return None
        text = insert.text(payload, session.identity, backslash_escapes=not session.no_backslash_escapes)
        leased = self._born_of(birth, text, own)
        if leased is not None:
            insert.executed_as_text()
        return leased

    def _offered(self, effects: Effects, size: int) -> Birth | None:
        """What a statement of that size may be born with."""
        session, queue = self._session, effects.only_adds
        if queue is None or session.rights is not None or not session.scope.empty or size > LONG_TEXT:
            return None
        if session.settings.unsettled or session.identity is not self._as:  # perhaps another account, or role
            self._none_in, self._as = set(), session.identity
        if session.settings.unsettled or session.settings.temporary or queue in self._none_in:
            return None
        if not stands_alone(session.upstream.status) or not self._reader.splittable:
            return None
        return self._engine.queues.offer_birth(queue)

    def _born_of(self, birth: Birth, text: bytes | None, own: bytes) -> LeasedInsert | None:
        escapes, inserts = not self._session.no_backslash_escapes, self._planning.leased_inserts
        if text is not None:
            text = inserts.leased(text, birth.until_ns, birth.token, backslash_escapes=escapes)
        if text is None:
            self._engine.queues.unborn(birth)
            return None
        return LeasedInsert(text, birth, own)

    def refused(self, birth: Birth, error: Outcome) -> bool:
        """Whether the client's own INSERT is to be sent after this error, because the lease may be the cause. Nothing
        was born then.

        An account may write only some columns, a session may have a temporary table of the queue's name, a column may
        have been dropped, and a trigger may refuse the values.
        """
        if error.errno in _NOT_BY_THE_LEASE or error.sqlstate.startswith(CONNECTION_LOST):
            return False
        self._engine.queues.unborn(birth)
        if error.errno in DENIED or any(column in error.message for column in LEASE_COLUMNS):
            self._none_in.add(birth.queue)  # the next one would be refused, too
        return True

    async def run_prepared(self, insert: PreparedInsert, payload: bytes, effects: Effects) -> bool:
        """As `run`, of an execution, where it may be leased."""
        leased = self.leased_execution(insert, payload, effects)
        return leased is not None and await self.run(leased, effects)

    async def run(self, leased: LeasedInsert, effects: Effects) -> bool:
        """Have the database insert the message, and answer the client. False: nothing was done, and the client's own
        INSERT is to be run.

        Raises:
            BackendError: the database refused it.
        """
        session, birth = self._session, leased.birth
        try:
            answer = await session.upstream.collect(self._reader.decode(leased.text))
        except BaseException:
            self._engine.queues.lost(birth)
            raise
        outcome = answer if isinstance(answer, Outcome) else Outcome(status=session.upstream.status)
        if not outcome.ok and self.refused(birth, outcome):
            return False
        self._database.note(outcome, effects, birth=birth)
        if not outcome.ok:
            raise outcome.failure()
        await session.writer.ok(
            affected_rows=outcome.affected_rows, last_insert_id=outcome.last_insert_id, warnings=outcome.warnings
        )
        return True
