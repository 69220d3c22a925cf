"""StatementReader: a client's text, read as its session reads it, into statements and plans.

A plan depends on the session: its account's rights, current database, character set and sql_mode. What the catalog
does not know is asked of the database: a table called `stream` that got an alias, a queue that another proxy has just
made, or a table that is no queue.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Container
from dataclasses import dataclass, replace

from engine.engine import Engine
from engine.model.errors import EngineError, NotAQueue
from engine.model.pins import Pins
from engine.model.queue import QueueName
from engine.model.sequence import Sequencing
from mysql_wire.errors import ProxyError
from mysql_wire.flags import BACKSLASH_IN_CHARACTERS, decoded, encoding_named
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.replies import MULTI_STATEMENTS
from proxy.session.guard import check_can_see, check_plan
from proxy.session.session import BackendTraits, ClientSession, Reach
from proxy.show.queue_status import QueueViews
from proxy.statements.planning import Planning
from proxy.upstream.base import collected, encoded
from rewriter.errors import InsertOfDump, RewriteError, UnknownQueue, UnsupportedSql
from rewriter.plan import NO_EFFECTS, Execute, Passthrough, Plan, PlanContext
from rewriter.plans.failed_attempts import add_reporter, add_reporter_to
from rewriter.scan.large_text import LargeText
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner, split_statements
from rewriter.text.lexis import OF_STATEMENT, SET_STATEMENT, defines_queue, is_compound, is_unread, leading_verb
from rewriter.text.long_text import LONG_TEXT
from rewriter.text.queue_names import UNKNOWN_DATABASE

DENIED = frozenset((1044, 1142, 1143))
"""The errors of a database for a table to which an account has no right."""

_SET_NAMES = re.compile(  # not DEFAULT, which only the server knows
    rb"\s*set\s+names\s+['\"]?(?!default\b)(\w+)['\"]?(?:\s+collate\s+['\"]?\w+['\"]?)?\s*;?\s*", re.IGNORECASE
)
_LEASE = b"queuegate_lease"
_REACH = b"transaction_mode"
_DEFINING = (b"CREATE", b"ALTER")
_INSERTING = (b"INSERT", b"REPLACE")
_UNSETTLING = (b"SET", b"PREPARE", b"EXECUTE")
_ALLOW_DROP = "@queuegate_allow_drop_table"
_ALLOWED = (b"1", b"on", b"true", b"yes")
_NO_TABLE = 1347  # ER_WRONG_OBJECT: 'x' is not BASE TABLE


@dataclass(frozen=True, slots=True)
class _Classified:
    """The classification of a text by a scanner."""

    text: bytes
    database: str | None
    scanner: StatementScanner
    classification: Classification

    def applies_to(self, text: bytes, database: str | None, scanner: StatementScanner) -> bool:
        """Whether this scanner would classify that text the same."""
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
        self._last_classified: _Classified | None = None
        self._sequencing = Sequencing.POSSIBLE
        self._context = PlanContext()

    def classify(self, text: bytes) -> Classification:
        """The scanner's classification of a text. That of a text that needs a plan is cached until the plan is made."""
        return self._classify(self._planning.scanner, text)

    def _classify(self, scanner: StatementScanner, text: bytes) -> Classification:
        seen, database = self._last_classified, self._session.database
        if seen is not None and seen.applies_to(text, database, scanner):
            return seen.classification
        escapes = not self._session.no_backslash_escapes
        classification = scanner.classify(text, database, backslash_escapes=escapes)
        if classification.kind is StatementClass.USE and b"\\" in text and not self._may_hide(text):
            classification = scanner.classify(text, database, backslash_escapes=escapes, several=False)
        if classification.kind is StatementClass.PLAN or classification.kind is StatementClass.USE:
            self._last_classified = _Classified(text, database, scanner, classification)
        return classification

    async def classify_long(self, text: bytes) -> Classification:
        """As `classify`, but a long text is scanned in a thread, so that other clients do not wait."""
        scanner = self._planning.scanner  # here: a thread must not build one
        if len(text) <= LONG_TEXT:
            return self._classify(scanner, text)
        return await asyncio.to_thread(self._classify, scanner, text)

    def large_text(self) -> LargeText | None:
        """The scanner of a text that is passed on while it comes; None where such a text has to be buffered."""
        session = self._session
        if self.several and (_has_names_in_quotes(session) or not self.splittable):
            return None
        escapes = not session.no_backslash_escapes
        return LargeText(self._planning.scanner, session.database, several=self.several, backslash_escapes=escapes)

    async def plan(self, text: bytes) -> Plan:
        """The plan for one statement; raises ClientFault kinds. A long one is planned in a thread, so that others have
        their turn meanwhile."""
        planner = self._planning.planner_for(self._session.rights)  # here: a thread must not build one
        context, seen = self._plan_context(), self._take_classified(text)
        if len(text) <= LONG_TEXT:
            return planner.plan(self.decode(text), context, seen)
        return await asyncio.to_thread(planner.plan, self.decode(text), context, seen)

    def quick(self, text: bytes) -> Execute | None:
        """The plan of a statement that can be made at once, without asking anyone; None: `planned` has to make it."""
        session = self._session
        if session.rights is not None or not text.isascii() or session.database == UNKNOWN_DATABASE:
            return None
        plan = self._planning.planner.quick(text.decode("ascii"), self._plan_context())
        return add_reporter_to(plan, session.reporter) if plan is not None and plan.sql.isascii() else None

    def _take_classified(self, text: bytes) -> Classification | None:
        """The cached classification of this text, if the planner would get the same. The cache is cleared."""
        seen, self._last_classified = self._last_classified, None
        if seen is None or self._session.rights is not None:
            return None
        same_text = text.isascii() or self._session.identity.codec == "utf-8"  # the planner reads UTF-8
        return (
            seen.classification
            if same_text and seen.applies_to(text, self._session.database, self._planning.scanner)
            else None
        )

    def _plan_context(self) -> PlanContext:
        database, modes, context = self._session.database, self._session.reading_modes(), self._context
        if context.database != database or context.sql_modes != modes or context.sequencing is not self._sequencing:
            self._context = PlanContext(database, sql_modes=modes, sequencing=self._sequencing)
        return self._context

    async def planned(self, text: bytes) -> Plan:
        """As `plan`, but what the catalog does not know is asked of the database: a table called `stream` that got an
        alias, a queue that another proxy has just made, or a table that is no queue. And only what the session may."""
        plan = add_reporter(await self._resolved_plan(text), self._session.reporter)
        if isinstance(plan, Execute) and plan.numbers is not None:
            await self._engine.topics.number(plan.numbers)
        if self._session.rights is not None:
            check_plan(self._session, plan)
            if isinstance(plan, Execute):
                return replace(plan, warnings=())  # those make it a statement of the proxy, which is not checked
        elif isinstance(plan, Passthrough) and plan.effects.removes and not self._allow_drop_table:
            await self._engine.refresh_catalog()  # what was a queue may be an ordinary table by now
            plan = await self.plan(text)
            await check_removal(self._session, plan, self._engine.catalog.topics)
        return plan

    async def _resolved_plan(self, text: bytes) -> Plan:
        if leading_verb(text)[0] not in _UNSETTLING:
            await self.settle(text)
        if defines_queue(text):
            # Another proxy, or someone around it, may have changed it a moment ago.
            await self._engine.refresh_catalog(await self._defined(text))
        if leading_verb(text)[0] in _DEFINING and b"TOPIC" in text.upper():
            self._sequencing = await self._engine.topics.sequencing()
        try:
            return await self._judged(text)
        except InsertOfDump as error:
            if self._session.rights is not None or leading_verb(text)[0] not in _INSERTING:
                raise
            if self._allow_drop_table or await _is_allowed(self._session):
                return Passthrough(self.classify(text).effects)
            raise UnsupportedSql(f"{error.message} (a dump is restored after SET {_ALLOW_DROP} = 1)") from None
        except UnknownQueue as error:
            if error.queue is not None:
                check_can_see(self._session, error.queue)
            if error.perhaps_alias and await _table_exists(self._session, "`stream`"):
                return Passthrough()
            queue = error.queue
            if queue is None or not await _table_exists(self._session, queue.sql):
                raise
        await self._engine.refresh_on_miss(patient=True)
        try:
            return await self.plan(text)
        except UnknownQueue:
            is_topic = queue in self._engine.catalog.topics
            instead = " but a topic: say TOPIC, or GROUP ... ON, in place of QUEUE" if is_topic else ""
            raise NotAQueue(f"'{queue.table}' is not a queue{instead}") from None

    async def _defined(self, text: bytes) -> Collection[QueueName] | None:
        """The tables on which a statement that defines a queue depends; None: not known."""
        try:
            plan = await self.plan(text)
        except (EngineError, RewriteError):
            return None
        effects = plan.effects if isinstance(plan, Execute) else NO_EFFECTS
        return None if isinstance(effects.catalog, bool) else effects.catalog.union(effects.names or ())

    async def _judged(self, text: bytes) -> Plan:
        """The plan. What is wrong with a statement on a queue is hidden from accounts that may not know of that queue:
        they get the error for a queue that does not exist, or the database's for a table without rights."""
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
            can_see = await self._views.can_see()
            try:
                return self._planning.planner_of(can_see).plan(self.decode(text), self._plan_context())
            except UnknownQueue as error:
                await self.check_denied(error.queue)
                raise

    async def check_denied(self, queue: QueueName | None) -> None:
        """Raises the database's error for a table to which the client has no right, whether it exists or not."""
        if queue is None:
            return
        sql = self._session.pinned(f"UPDATE {queue.sql} SET time_next = 0 WHERE 1 = 0", Pins.VERB)
        probe = await self._session.upstream.collect(sql)
        if isinstance(probe, Outcome) and probe.errno in DENIED:
            raise probe.failure()

    def _may_hide(self, text: bytes) -> bool:
        """Whether the server may read another statement than is read here, or more: by comments that it runs or skips,
        or because a string, as it is read here, ends sooner."""
        if is_unread(text, backslash_escapes=not self._session.no_backslash_escapes):
            return True
        if b"\\" not in text or b";" not in text or not self.several:
            return False
        return not self.splittable or (b'"' in text and _has_names_in_quotes(self._session))

    @property
    def several(self) -> bool:
        """Whether the client may send several statements at once."""
        return bool(self._session.writer.capabilities & MULTI_STATEMENTS)

    @property
    def splittable(self) -> bool:
        """Whether the ends of a text's statements can be found in its bytes."""
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
        """A client's text. Bytes that are not valid in its charset are carried through: the database judges them.

        Raises:
            ProxyError: see `decoded`.
        """
        return decoded(text, self._session.identity.codec)

    def encode(self, sql: str) -> bytes:
        """The inverse of `decode`. Raises BackendError: a name has no form in the client's character set."""
        return encoded(sql, self._session.identity.codec)

    def names_again(self, text: bytes) -> bool:
        """Whether it is a SET NAMES of the character set that texts are read in already, as most clients begin."""
        named = _SET_NAMES.fullmatch(text)
        return named is not None and encoding_named(named[1].decode().lower()) == self._session.identity.codec

    def learn(self, text: bytes, *, ok: bool = True) -> None:
        """After a statement that may have changed how those to come are to be read. MariaDB runs USE from a string,
        also in a procedure and in a block; where these fail (not `ok`), a part of them may have been done."""
        session = self._session
        session.settings.streams.forget()
        verb, end = leading_verb(text)
        if self._may_hide(text):
            session.database, session.settings.lease = UNKNOWN_DATABASE, None
            session.settings.temporary = session.settings.unsettled = session.settings.may_use = True
            session.settings.reach, session.settings.sets_reach = Reach.UNKNOWN, True
            return
        if verb == b"SET" and OF_STATEMENT.match(text, end) is not None:
            self._learn_behind(text, end, ok=ok)
        if verb == b"SET" and _LEASE in text.lower():
            session.settings.lease = None
        if verb == b"SET" and _REACH in text.lower():
            session.settings.reach, session.settings.sets_reach = Reach.UNKNOWN, True
        if verb == b"PREPARE":
            session.settings.may_use = True
        elif verb in _DEFINING:
            session.settings.temporary |= b"temporary" in text.lower()
        elif (verb == b"EXECUTE" and (session.settings.may_use or b"immediate" in text[:64].lower())) or (
            verb == b"CALL" or is_compound(text)
        ):
            session.database, session.settings.unsettled = UNKNOWN_DATABASE, True
            session.settings.temporary |= verb != b"CALL"
        elif verb == b"SET" and ok and (named := _SET_NAMES.fullmatch(text)) is not None:
            self._recode(named[1].decode().lower())
        elif verb == b"USE":
            session.set_database(UNKNOWN_DATABASE)  # in a form that only the server reads
            session.settings.unsettled = True
        elif verb == b"SET":
            session.settings.unsettled = True

    def _learn_behind(self, text: bytes, end: int, *, ok: bool) -> None:
        """After a SET STATEMENT: its settings end with the statement behind them, which may change anything."""
        settings = SET_STATEMENT.match(text, end)
        if settings is not None:
            self.learn(text[settings.end() :], ok=ok)
        else:
            self._session.database = UNKNOWN_DATABASE
            self._session.settings.temporary = True

    def _recode(self, charset: str) -> None:
        codec = encoding_named(charset)
        if codec != self._session.identity.codec:
            self._session.identity = replace(self._session.identity, codec=codec)
            self._session.upstream.recode(codec)

    async def settle(self, text: bytes) -> None:
        """Read what may have changed unnoticed, if the reading of this text depends on it, or the writing of what is
        made of it. Not at once after the change: that would destroy the client's warnings and counts."""
        session = self._session
        if not session.settings.unsettled:
            return
        plain = text.isascii() and b'"' not in text and b"\\" not in text and (session.database or "").isascii()
        if plain and self._planning.plain_names and session.database != UNKNOWN_DATABASE:
            return
        listed = await collected(self._session.upstream, "SELECT @@character_set_client, @@sql_mode, DATABASE()")
        charset, modes, database = ((value or b"").decode("utf-8", "replace") for value in listed.row(3))
        self._recode(charset)
        session.settings.sql_modes = frozenset(modes.split(","))
        session.on_database_reported(database)
        session.settings.unsettled = False


async def _table_exists(session: ClientSession, name: str) -> bool:
    return isinstance(await session.upstream.collect(f"SELECT 1 FROM {name} LIMIT 0"), Collected)


def _has_names_in_quotes(session: ClientSession) -> bool:
    """Whether double quotes may be those of names, as far as it is known."""
    return session.settings.unsettled or "ANSI_QUOTES" in session.reading_modes()


async def check_removal(session: ClientSession, plan: Plan, topics: Container[QueueName]) -> None:
    """Nothing where what the plan drops or empties may go: DROP TABLE and TRUNCATE TABLE of a queue are refused, unless
    the configuration or the session allows it.

    Programs without knowledge of queues send them routinely: an overwrite from Spark, a test suite that tidies up, a
    dump that is read in. DROP QUEUE and TRUNCATE QUEUE show that deleting the messages is intended.

    The user variable is read when it matters: so it applies however it was set, and ends with the session.

    Raises:
        ProxyError: 1347, with what to do instead.
    """
    queues = plan.effects.removes if isinstance(plan, Passthrough) else frozenset()
    if not queues or await _is_allowed(session):
        return
    queue = min(queues)
    if queue in topics:
        raise ProxyError(
            _NO_TABLE,
            f"'{queue}' is not an ordinary table but a topic; use DROP TOPIC {queue.table}, or DELETE FROM"
            f" {queue.table}. TRUNCATE would begin its offsets anew, and groups would miss what comes then",
        )
    raise ProxyError(
        _NO_TABLE,
        f"'{queue}' is not an ordinary table but a queue; use DROP QUEUE {queue.table} or TRUNCATE QUEUE {queue.table}."
        f" DROP TABLE and TRUNCATE TABLE work after SET {_ALLOW_DROP} = 1, or with queues.allow_drop_table in the"
        " proxy's configuration",
    )


async def _is_allowed(session: ClientSession) -> bool:
    (value,) = (await collected(session.upstream, f"SELECT {_ALLOW_DROP}")).row(1)
    return value is not None and value.lower() in _ALLOWED
