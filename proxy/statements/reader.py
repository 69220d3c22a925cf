"""StatementReader: a client's text, read as its session reads it, into statements and plans.

A plan depends on the session: its account's rights, current database, character set and sql_mode. What the catalog
does not know is asked of the database: a table called `stream` that got an alias, a queue that another proxy has just
made, or a table that is no queue.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from engine.engine import Engine
from engine.model.errors import EngineError, NotAQueue
from engine.model.pins import Pins
from engine.model.queue import QueueName
from engine.model.sequence import Sequencing
from proxy.session.backend_traits import BackendTraits
from proxy.session.guard import check_plan, check_sees
from proxy.session.session import ClientSession
from proxy.show.queue_status import QueueViews
from proxy.statements.drop_table import check_removal
from proxy.statements.planning import Planning
from proxy.upstream.base import collected, encoded
from proxy.wire.flags import BACKSLASH_IN_CHARACTERS, encoding_named
from proxy.wire.outcome import Collected, Outcome
from proxy.wire.replies import MULTI_STATEMENTS
from rewriter.errors import RewriteError, UnknownQueue
from rewriter.plan import Execute, Passthrough, Plan, PlanContext
from rewriter.plans.failed_attempts import signed, signed_statement
from rewriter.scan.passing_text import LargeText
from rewriter.scan.scanner import Concern, Glance, StatementScanner, split_statements
from rewriter.text.lexis import defines_queue, leading_verb
from rewriter.text.long_text import LONG_TEXT
from rewriter.text.queue_names import UNKNOWN_DATABASE

DENIED = frozenset((1044, 1142, 1143))
"""What a database says of a table to which an account has no right."""

_SET_NAMES = re.compile(rb"\s*set\s+names\s+['\"]?(\w+)['\"]?(?:\s+collate\s+['\"]?\w+['\"]?)?\s*;?\s*", re.IGNORECASE)
_LEASE = b"queuegate_lease"
_DEFINING = (b"CREATE", b"ALTER")
_UNSETTLING = (b"SET", b"PREPARE", b"EXECUTE")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a scanner has said of a text."""

    text: bytes
    database: str | None
    scanner: StatementScanner
    glance: Glance

    def holds(self, text: bytes, database: str | None, scanner: StatementScanner) -> bool:
        """Whether this scanner would say the same of that text."""
        return self.scanner is scanner and self.database == database and self.text == text


class StatementReader:
    """See the module. For one session."""

    def __init__(
        self,
        session: ClientSession,
        engine: Engine,
        planning: Planning,
        views: QueueViews,
        traits: BackendTraits,
        *,
        allow_drop_table: bool,
    ) -> None:
        self._session = session
        self._engine = engine
        self._planning = planning
        self._views = views
        self._traits = traits
        self._allow_drop_table = allow_drop_table
        self._seen: _Seen | None = None
        self._sequencing = Sequencing.POSSIBLE
        self._context = PlanContext()

    def glance(self, text: bytes) -> Glance:
        """What the scanner says of a text. What it says of one that needs a plan is kept until the plan is made."""
        return self._glance(self._planning.scanner, text)

    def _glance(self, scanner: StatementScanner, text: bytes) -> Glance:
        seen, database = self._seen, self._session.database
        if seen is not None and seen.holds(text, database, scanner):
            return seen.glance
        glance = scanner.glance(text, database)
        if glance.concern is Concern.PLAN or glance.concern is Concern.USE:
            self._seen = _Seen(text, database, scanner, glance)
        return glance

    async def glance_long(self, text: bytes) -> Glance:
        """As `glance`, but a long text is looked at in a thread, so that others have their turn meanwhile."""
        scanner = self._planning.scanner  # here: a thread must not build one
        if len(text) <= LONG_TEXT:
            return self._glance(scanner, text)
        return await asyncio.to_thread(self._glance, scanner, text)

    def large_text(self) -> LargeText | None:
        """What looks at a text that is passed on while it comes; None where such a text has to be held."""
        if self.several and not self.splittable:
            return None
        session = self._session
        escapes = not session.no_backslash_escapes
        return LargeText(self._planning.scanner, session.database, several=self.several, backslash_escapes=escapes)

    async def plan(self, text: bytes) -> Plan:
        """The plan for one statement; raises ClientFault kinds. A long one is planned in a thread, so that others have
        their turn meanwhile."""
        planner = self._planning.planner_for(self._session.rights)  # here: a thread must not build one
        context, seen = self._plan_context(), self._take_seen(text)
        if len(text) <= LONG_TEXT:
            return planner.plan(self.decode(text), context, seen)
        return await asyncio.to_thread(planner.plan, self.decode(text), context, seen)

    def quick(self, text: bytes) -> Execute | None:
        """The plan of a statement that can be made at once, without asking anybody; None: `planned` has to make it."""
        session = self._session
        if session.rights is not None or not text.isascii() or session.database == UNKNOWN_DATABASE:
            return None
        plan = self._planning.planner.quick(text.decode("ascii"), self._plan_context())
        return signed_statement(plan, session.who) if plan is not None and plan.sql.isascii() else None

    def _take_seen(self, text: bytes) -> Glance | None:
        """What was seen of this text when it came, if the planner would see the same. It is kept no longer."""
        seen, self._seen = self._seen, None
        if seen is None or self._session.rights is not None:
            return None
        same_text = text.isascii() or self._session.identity.codec == "utf-8"  # the planner reads UTF-8
        return seen.glance if same_text and seen.holds(text, self._session.database, self._planning.scanner) else None

    def _plan_context(self) -> PlanContext:
        database, modes, known = self._session.database, self._session.reading_modes(), self._context
        if known.database != database or known.sql_modes != modes or known.sequencing is not self._sequencing:
            self._context = PlanContext(database, sql_modes=modes, sequencing=self._sequencing)
        return self._context

    async def planned(self, text: bytes) -> Plan:
        """As `plan`, but what the catalog does not know is asked of the database: a table called `stream` that got an
        alias, a queue that another proxy has just made, or a table that is no queue. And only what the session may."""
        plan = signed(await self._found(text), self._session.who)
        if isinstance(plan, Execute) and plan.numbers is not None:
            await self._engine.topics.number(plan.numbers)
        if self._session.rights is not None:
            check_plan(self._session, plan)
            if isinstance(plan, Execute):
                return replace(plan, warnings=())  # those make it a statement of ours, which is not judged
        elif isinstance(plan, Passthrough) and plan.effects.removes and not self._allow_drop_table:
            await self._engine.refresh_catalog()  # what was a queue may be an ordinary table by now
            plan = await self.plan(text)
            await check_removal(self._session, plan, self._engine.catalog.topics)
        return plan

    async def _found(self, text: bytes) -> Plan:
        if leading_verb(text)[0] not in _UNSETTLING:
            await self.settle(text)
        if defines_queue(text):
            # Another proxy, or somebody around it, may have changed it a moment ago.
            await self._engine.refresh_catalog()
        if leading_verb(text)[0] in _DEFINING and b"TOPIC" in text.upper():
            self._sequencing = await self._engine.topics.sequencing()
        try:
            return await self._judged(text)
        except UnknownQueue as error:
            if error.queue is not None:
                check_sees(self._session, error.queue)
            if error.perhaps_alias and await self._table_exists("`stream`"):
                return Passthrough()
            queue = error.queue
            if queue is None or not await self._table_exists(queue.sql):
                raise
        await self._engine.refresh_on_miss(patient=True)
        try:
            return await self.plan(text)
        except UnknownQueue:
            is_topic = queue in self._engine.catalog.topics
            instead = " but a topic: say TOPIC, or GROUP ... ON, in place of QUEUE" if is_topic else ""
            raise NotAQueue(f"'{queue.table}' is not a queue{instead}") from None

    async def _judged(self, text: bytes) -> Plan:
        """The plan. What is wrong with a statement on a queue is hidden from whoever may not know of that queue: to
        them it is a queue that does not exist, or whatever the database says of a table that they have no right to."""
        try:
            return await self.plan(text)
        except UnknownQueue as error:
            if self._session.rights is None and self._traits.accounts:
                await self.check_denied(error.queue)
            raise
        except (EngineError, RewriteError):
            if self._session.rights is not None or not self._traits.accounts:
                raise
            if not self._planning.scanner.names_queue(text):
                raise
            sees = await self._views.sees()
            try:
                return self._planning.planner_of(sees).plan(self.decode(text), self._plan_context())
            except UnknownQueue as error:
                await self.check_denied(error.queue)
                raise

    async def check_denied(self, queue: QueueName | None) -> None:
        """Raises what the database says of a table to which the client has no right, be it there or not."""
        if queue is None:
            return
        sql = self._session.pinned(f"UPDATE {queue.sql} SET time_next = 0 WHERE 1 = 0", Pins.VERB)
        probe = await self._session.upstream.collect(sql)
        if isinstance(probe, Outcome) and probe.errno in DENIED:
            raise probe.failure()

    @property
    def several(self) -> bool:
        """Whether the client may send several statements at once."""
        return bool(self._session.writer.capabilities & MULTI_STATEMENTS)

    @property
    def splittable(self) -> bool:
        """Whether the bytes of a text tell where its statements end."""
        return self._session.identity.codec not in BACKSLASH_IN_CHARACTERS

    async def split(self, text: bytes) -> list[bytes]:
        """The statements of a text, where the client may send several; a text that cannot be split safely is one. A
        long text is split in a thread."""
        if not self.several or not self.splittable:
            return [text]
        escapes = not self._session.no_backslash_escapes
        if len(text) <= LONG_TEXT:
            return split_statements(text, backslash_escapes=escapes) or [text]
        return await asyncio.to_thread(split_statements, text, backslash_escapes=escapes) or [text]

    def decode(self, text: bytes) -> str:
        """A client's text. Bytes that are not valid in its charset are carried through: the database judges them."""
        return text.decode(self._session.identity.codec, "surrogateescape")

    def encode(self, sql: str) -> bytes:
        """The inverse of `decode`. Raises BackendError: a name has no form in the client's character set."""
        return encoded(sql, self._session.identity.codec)

    def names_again(self, text: bytes) -> bool:
        """Whether it is a SET NAMES of the character set that texts are read in already, as most clients begin."""
        named = _SET_NAMES.fullmatch(text)
        return named is not None and encoding_named(named[1].decode().lower()) == self._session.identity.codec

    def learn(self, text: bytes) -> None:
        """After a statement that may have changed how those to come are to be read. MariaDB runs USE from a string."""
        session = self._session
        verb, _ = leading_verb(text)
        if verb == b"SET" and _LEASE in text.lower():
            session.lease = None
        if verb == b"PREPARE":
            session.may_use = True
        elif verb == b"EXECUTE" and (session.may_use or b"immediate" in text[:64].lower()):
            session.database, session.unsettled = UNKNOWN_DATABASE, True
        elif verb == b"SET" and (named := _SET_NAMES.fullmatch(text)) is not None:
            self._recode(named[1].decode().lower())
        elif verb == b"USE":
            session.entered(UNKNOWN_DATABASE)  # in a form that only the server reads
            session.unsettled = True
        elif verb == b"SET":
            session.unsettled = True

    def _recode(self, charset: str) -> None:
        codec = encoding_named(charset)
        if codec != self._session.identity.codec:
            self._session.identity = replace(self._session.identity, codec=codec)
            self._session.upstream.recode(codec)

    async def settle(self, text: bytes) -> None:
        """Ask for what may have changed unseen, if the reading of this text depends on it. Not at once when it may have
        changed: that would take warnings and counts from the client."""
        session = self._session
        plain = text.isascii() and b'"' not in text and b"\\" not in text
        if not session.unsettled or (plain and session.database != UNKNOWN_DATABASE):
            return
        listed = await collected(self._session.upstream, "SELECT @@character_set_client, @@sql_mode, DATABASE()")
        charset, modes, database = ("" if value is None else self.decode(value) for value in listed.row(3))
        self._recode(charset)
        session.sql_modes = frozenset(modes.split(","))
        session.entered_as_told(database)
        session.unsettled = False

    async def _table_exists(self, name: str) -> bool:
        return isinstance(await self._session.upstream.collect(f"SELECT 1 FROM {name} LIMIT 0"), Collected)
