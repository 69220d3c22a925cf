"""StatementCommands: COM_STMT_PREPARE, and the commands on prepared statements.

Invariant: every statement is either the database's, whose effects are known from its number, or the proxy's own, with a
number that no server gives.
"""

from __future__ import annotations

from dataclasses import replace

from mysql_mimic.types import Commands

from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.requests import FIRST_LOCAL_ID
from proxy.commands.prepared import LocalStatements, rebind
from proxy.commands.upstream_statements import EXECUTIONS, UpstreamStatements
from proxy.session.guard import judge_own, judged_as_plan
from proxy.statements.executor import Executor
from proxy.statements.prepared_inserts import PreparedInsert
from proxy.upstream.large_command import LargeCommand
from rewriter.plan import (
    Effects,
    EndInGroup,
    Execute,
    ExecuteCounting,
    InsertAfterGroup,
    Passthrough,
    Redrive,
    UseDatabase,
)
from rewriter.scan.scanner import StatementClass, transaction_verb
from rewriter.text.lexis import leading_verb

_OPTION_VERBS = (b"NACK", b"REJECT", b"RELEASE", b"RENEW", b"RETRY")
STATEMENT_COMMANDS = frozenset(
    (
        Commands.COM_STMT_EXECUTE,
        Commands.COM_STMT_FETCH,
        Commands.COM_STMT_RESET,
        Commands.COM_STMT_CLOSE,
        Commands.COM_STMT_SEND_LONG_DATA,
        BULK_EXECUTE,
    )
)


def _follows_options(text: bytes) -> bool:
    """Whether what a verb does depends on the queue's options, which ALTER QUEUE may change."""
    return leading_verb(text)[0] in _OPTION_VERBS


class StatementCommands:
    """See the module. For one client; `upstream` are the database's."""

    def __init__(self, executor: Executor) -> None:
        self.upstream = UpstreamStatements()
        self._executor = executor
        self._local = LocalStatements(executor)

    async def prepare(self, payload: bytes) -> None:
        """COM_STMT_PREPARE."""
        upstream, reader = self.upstream, self._executor.reader
        upstream.last = None
        text = payload[1:]
        if self._executor.session.rights is not None:
            await reader.settle(text)  # the names in it are judged
        classification = await reader.classify_long(text)
        if classification.kind in (StatementClass.NONE, StatementClass.TOUCHES):
            verb = transaction_verb(text, backslash_escapes=not self._executor.session.no_backslash_escapes)
            effects = replace(classification.effects, transaction=verb)
            await self._prepare_upstream(payload, effects, insert=self._insert(text, effects))
            return
        match await reader.planned(text):
            case Passthrough() if classification.kind is StatementClass.USE:
                if (number := await self._prepared(payload)) is not None:
                    upstream.add_setting(number, text)
            case Passthrough(effects):
                await self._prepare_upstream(payload, effects)
            case Execute() as plan if plan.has_prerequisites or plan.effects.catalog or _follows_options(text):
                # At each execution: by then the database may decide differently, and the queue have other options.
                if not judged_as_plan(self._executor.session, plan):
                    await judge_own(self._executor.session, plan.sql)  # so that it is refused now where it will be
                upstream.last = await self._local.prepare(rebind(self._executor, text))
            case Execute(sql, effects) as plan if not judged_as_plan(self._executor.session, plan):
                pinned, plain = (
                    payload[:1] + reader.encode(form) for form in (self._executor.session.pinned(sql, plan.pins), sql)
                )
                await self._prepare_upstream(pinned, effects, repeatable=True, plain=plain)
            case UseDatabase(database):
                if (number := await self._prepared(payload)) is not None:
                    upstream.add_use(number, database)
            case EndInGroup() | InsertAfterGroup() | Redrive():
                upstream.last = await self._local.prepare(rebind(self._executor, text))
            case ExecuteCounting(column=column):
                upstream.last = await self._local.prepare(replace(rebind(self._executor, text), column=column))
            case plan:
                upstream.last = await self._local.prepare(plan)

    async def _prepared(self, payload: bytes, plain: bytes | None = None) -> int | None:
        """Have the database prepare a statement; its number, or None where the client was sent an error."""
        outcome = await self._executor.database.forward(payload, plain=plain)
        return outcome.statement_id if outcome.ok else None

    def _insert(self, text: bytes, effects: Effects) -> PreparedInsert | None:
        session = self._executor.session
        return None if effects.only_adds is None else PreparedInsert.of(text, session.database)

    async def _prepare_upstream(
        self,
        payload: bytes,
        effects: Effects,
        *,
        repeatable: bool = False,
        insert: PreparedInsert | None = None,
        plain: bytes | None = None,
    ) -> None:
        if (number := await self._prepared(payload, plain)) is not None:
            self.upstream.add(number, effects, repeatable=repeatable, insert=insert)

    async def command(self, payload: bytes) -> None:
        """One of STATEMENT_COMMANDS."""
        upstream, command = self.upstream, payload[0]
        number = upstream.number(payload)
        if command == Commands.COM_STMT_CLOSE:
            upstream.close(number)
        if number >= FIRST_LOCAL_ID:
            await self._local.command(payload, number)
            return
        if command == Commands.COM_STMT_SEND_LONG_DATA:
            upstream.long_data(number)
        elif command in EXECUTIONS and (insert := upstream.inserts.get(number)) is not None:
            payload = insert.completed(payload, self._executor.session.identity.capabilities)
            if await self._executor.births.run_prepared(insert, payload, upstream.effects_of(command, number)):
                return
        effects, repeatable = upstream.effects_of(command, number), number in upstream.repeatable
        outcome = await self._executor.database.forward(payload, effects, effects.transaction, repeatable=repeatable)
        if command not in EXECUTIONS:
            return
        if outcome.ok and (database := upstream.database_after(number)) is not None:
            self._executor.session.set_database(database)
        elif (text := upstream.setting(number)) is not None:
            self._executor.reader.learn(text, ok=outcome.ok)

    async def pass_on(self, large: LargeCommand) -> bool:
        """A command that the client is still sending, passed on meanwhile. False: it is to be read whole first."""
        number = self.upstream.number(large.head)
        if number >= FIRST_LOCAL_ID or not self._complete(large.head, number):
            return False
        if large.head[0] == Commands.COM_STMT_SEND_LONG_DATA:
            self.upstream.long_data(number)
        effects = self.upstream.effects_of(large.head[0], number)
        outcome = await self._executor.database.pass_on(large, effects)
        self._executor.database.note(outcome, effects, effects.transaction)
        return True

    def _complete(self, head: bytes, number: int) -> bool:
        """Whether the database may have a command that begins so as it comes."""
        insert = self.upstream.inserts.get(number) if head[0] in EXECUTIONS else None
        return insert is None or insert.completed(head, self._executor.session.identity.capabilities) is head

    async def forget(self) -> None:
        """The session begins again."""
        self.upstream.clear()
        await self._local.close()

    async def close(self) -> None:
        """The session is over."""
        await self._local.close()
