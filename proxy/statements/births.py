"""SessionBirths: which of a client's INSERTs are sent with a lease for a receiver that waits (engine.delivery.births).

Only where the text alone says what the statement does: it is a transaction of its own, of one row of literals, by an
account whose statements are not judged one by one, in a session whose settings are known.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.delivery.births import Birth
from engine.engine import Engine
from engine.model.queue import QueueName
from mysql_wire.outcome import Outcome
from proxy.session.session import ClientSession
from proxy.statements.database_commands import DatabaseCommands
from proxy.statements.planning import Planning
from proxy.statements.reader import DENIED, StatementReader
from proxy.upstream.repeats import stands_alone
from rewriter.plan import Effects
from rewriter.text.long_text import LONG_TEXT


class LeasedInsert(NamedTuple):
    """What is sent in place of an INSERT, and what it is born with. `first`: whether the account may write all columns
    of the queue is not known yet, so the answer is to be read before the client gets it."""

    text: bytes
    birth: Birth
    first: bool


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
        self._may: dict[QueueName, bool] = {}
        self._may_of = session.identity

    def leased(self, text: bytes, effects: Effects) -> LeasedInsert | None:
        """The INSERT with a lease; None where it is to be sent as it is. `effects`: the scanner's. What became of the
        birth must be reported to the engine."""
        session, queue = self._session, effects.only_adds
        if queue is None or session.rights is not None or not session.scope.empty or len(text) > LONG_TEXT:
            return None
        if session.settings.unsettled or session.identity is not self._may_of:  # perhaps another account, or role
            self._may, self._may_of = {}, session.identity
        if session.settings.unsettled or self._may.get(queue) is False:
            return None
        if not stands_alone(session.upstream.status) or not self._reader.splittable:
            return None
        birth = self._engine.queues.offer_birth(queue)
        if birth is None:
            return None
        escapes, inserts = not session.no_backslash_escapes, self._planning.leased_inserts
        sql = inserts.leased(text, birth.until_ns, birth.token, backslash_escapes=escapes)
        if sql is None:
            self._engine.queues.unborn(birth)
            return None
        return LeasedInsert(sql, birth, queue not in self._may)

    async def run(self, leased: LeasedInsert, effects: Effects) -> bool:
        """Have the database insert the message, and answer the client. False: nothing was done, since the account may
        not write all columns of the queue; the statement is to be run as it is.

        Raises:
            BackendError: the database refused it.
        """
        session, birth, database = self._session, leased.birth, self._database
        try:
            if leased.first:
                answer = await session.upstream.collect(self._reader.decode(leased.text))
                outcome = answer if isinstance(answer, Outcome) else Outcome(status=session.upstream.status)
            else:
                outcome = await session.upstream.command(database.query(leased.text), repeatable=True)
        except BaseException:
            self._engine.queues.lost(birth)
            raise
        if not leased.first:
            database.note(outcome, effects, birth=birth)
            return True
        self._may[birth.queue] = outcome.errno not in DENIED
        if outcome.errno in DENIED:
            self._engine.queues.unborn(birth)
            return False
        database.note(outcome, effects, birth=birth)
        if not outcome.ok:
            raise outcome.failure()
        await session.writer.ok(
            affected_rows=outcome.affected_rows, last_insert_id=outcome.last_insert_id, warnings=outcome.warnings
        )
        return True
