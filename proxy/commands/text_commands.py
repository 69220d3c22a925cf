"""TextCommands: COM_QUERY and COM_INIT_DB.

Invariant: a text goes to the database as one only if nothing in it concerns a queue, or all that does is known to touch
it; else its statements are planned one after the other, and the first that fails ends the command.
"""

from __future__ import annotations

from mysql_wire import requests
from mysql_wire.errors import ProxyError
from proxy.login.system_database import is_system
from proxy.statements.executor import Executor
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.large_command import LargeCommand
from rewriter.plan import TransactionVerb
from rewriter.scan.large_text import LargeText
from rewriter.scan.scanner import StatementClass, transaction_verb
from rewriter.text.transaction_verbs import verb_of


class TextCommands:
    """See the module. For one client."""

    def __init__(self, client: ClientSocket, executor: Executor) -> None:
        self._client = client
        self._executor = executor
        self._session = executor.session

    async def query(self, payload: bytes) -> None:
        """COM_QUERY."""
        text = self._begin(payload)
        if await self._executor.answer_show_warnings(text):
            return
        self._check_begin(text)
        if self._session.rights is not None:
            await self._run_each(text)  # each statement is judged for itself
            return
        classification = await self._executor.reader.classify_long(text)
        if classification.kind in (StatementClass.USE, StatementClass.PLAN):
            await self._run_each(text)
            return
        if classification.effects.catalog:
            await self._executor.reader.settle(text)  # the proxy writes a name of it where that is a queue's new one
        if classification.kind is StatementClass.TOUCHES:
            leased = self._executor.births.leased(text, classification.effects)
            if leased is not None and await self._executor.births.run(leased, classification.effects):
                return
        verb = self._verb(text) if classification.kind is StatementClass.NONE else None
        del text  # it may be many megabytes, and the database may take its time
        await self._executor.database.forward(payload, classification.effects, verb)

    async def pass_on(self, large: LargeCommand) -> bool:
        """A query that the client is still sending, passed on meanwhile, where its beginning shows that the database
        may have it. False: it is to be read whole first."""
        if not large.endless:
            return False
        reader = self._executor.reader
        await reader.settle(b'"')  # what comes may depend on all of it
        text = reader.large_text()
        if text is None:
            return False
        sql = self._begin(large.head)
        if not large.watch(text, len(large.head) - len(sql)):
            return False
        await self._pass_on(large, text)
        return True

    async def _pass_on(self, large: LargeCommand, text: LargeText) -> None:
        self._session.notes = ()
        outcome = await self._executor.database.pass_on(large)
        self._executor.database.note(outcome, text.effects, text.verb)
        if not outcome.ok or large.rest is None:
            return
        if large.too_large:
            raise ProxyError(
                1153,
                "Got a packet bigger than 'max_allowed_packet' bytes: the statements from the first that concerns a "
                f"queue on are more than {self._client.commands.max_packet_bytes} bytes; send them apart from what is"
                " before",
            )
        await self._run_each(bytes(large.rest))

    def _begin(self, payload: bytes) -> bytes:
        """The text of a query, which is shown in the process list from now on."""
        identity = self._session.identity
        text = requests.query_text(payload[1:], identity.capabilities)
        if text is None:
            text = requests.parse_query(payload[1:], identity.capabilities)
        self._session.busy(text[:1024].decode(identity.codec, "replace"))
        return text

    async def _run_each(self, text: bytes) -> None:
        executor = self._executor
        if b";" in text:
            await executor.reader.settle(text)
        statements = await executor.reader.split(text)
        for number, statement in enumerate(statements, 1):
            if not await executor.run(statement, more=number < len(statements)):
                return

    def _check_begin(self, text: bytes) -> None:
        session, transactions = self._session, self._executor.database.transactions
        user = session.identity.user
        if not session.admin and transactions.full(user) and verb_of(text) is TransactionVerb.BEGIN:
            transactions.check(user)

    def _verb(self, text: bytes) -> TransactionVerb | None:
        """Looked up only when the answer matters."""
        if self._session.scope.empty and not self._executor.database.unlimited:
            return None
        return transaction_verb(text, backslash_escapes=not self._session.no_backslash_escapes)

    async def init_db(self, payload: bytes) -> None:
        """COM_INIT_DB."""
        await self._executor.reader.settle(payload[1:])
        database = payload[1:].decode(self._session.identity.codec, "replace")
        if is_system(database) and await self._executor.enter_system_database() is not None:
            return
        outcome = await self._executor.database.forward(payload)
        if outcome.ok:
            self._session.set_database(database)
