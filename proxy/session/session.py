"""ClientSession: a client's identity and the state for its next statement. State only; the connection and executor act.

Modes: ready (waiting for a command), busy (a command is being answered), streaming (a subscription is being sent).
The current one is in `process_info`, which is the row of SHOW PROCESSLIST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from engine.backend.environment import StatementPins
from engine.clock import Clock
from engine.delivery.subscription import Subscription
from engine.engine import OpenStream
from engine.model.attempts import receiver_members
from engine.model.commit_report import CommitReport
from engine.model.pins import Pins
from engine.model.queue import Condition, QueueName, ReceiverIdentity
from mysql_wire.status_flags import ANSI_QUOTES, IN_TRANSACTION, NO_BACKSLASH_ESCAPES
from proxy.cluster.registry import ProcessInfo
from proxy.login.system_database import SUBSTITUTE_DATABASE
from proxy.rights.account_rights import SessionRights
from proxy.session.stream_memory import StreamMemory
from proxy.session.transaction_scope import TransactionScope
from proxy.transport.answer_writer import AnswerWriter
from proxy.upstream.base import Upstream
from rewriter.plan import Effects, StreamFilter
from rewriter.text.queue_names import SYSTEM_DATABASE

_INFO_MAX_CHARS = 1024  # what SHOW PROCESSLIST shows of a statement (MySQL without FULL: 100)
_ANSI = frozenset(("ANSI_QUOTES",))
_BACKSLASH = frozenset(("NO_BACKSLASH_ESCAPES",))
# By whether backslash escapes are off, and double quotes are for names.
_MODES_REPORTED = {
    (False, False): frozenset[str](),
    (True, False): _BACKSLASH,
    (False, True): _ANSI,
    (True, True): _BACKSLASH | _ANSI,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in, from where, as which connection; and the client's program, if it sends it."""

    connection_id: int
    user: str
    host: str
    capabilities: int
    codec: str = "utf-8"
    program: str = ""
    pid: int | None = None

    @property
    def account(self) -> str:
        """As USER() shows it."""
        return f"{self.user}@{self.host.rsplit(':', 1)[0]}"

    def receiver(self, consumer: str = "") -> ReceiverIdentity:
        """The same for the engine. `consumer`: the name that a statement has; else it is that of the program."""
        return ReceiverIdentity(self.connection_id, self.user, self.host, consumer or self.program, self.pid)


@dataclass(frozen=True, slots=True)
class BackendConnection:
    """What is to be known of a client's connection to the database. `pins`: how statements of the proxy's own are
    written on it. `backend_id`: its id there, if it has one, for a client that the database does not know."""

    pins: Callable[[], StatementPins] = StatementPins
    backend_id: Callable[[], int | None] | None = None


class Reach(Enum):
    """How far the session's transactions may reach, where there are queues over several shards of a Vitess. ONE: to one
    shard, or to several as a whole. SEVERAL: to several, one after the other, as the client has asked for."""

    UNKNOWN = "unknown"
    ONE = "one"
    SEVERAL = "several"


@dataclass(slots=True)
class StatementSettings:
    """What the client has set, as far as its next statement depends on it; COM_RESET_CONNECTION undoes all of it.

    `unsettled`: whether a statement may have changed the character set, the modes, or the default database unnoticed:
    they are read when something depends on them. `sql_modes`: as far as the status flags do not have them. `may_use`: a
    prepared text may contain USE. `temporary`: a temporary table may have a queue's name. `consumer`: the name that its
    last receiver gave itself. `lease`: of what it receives, where a statement has none; None: its variable is to be
    read. `streams`: see StreamMemory. `reach`: see Reach. `sets_reach`: whether the client has set it.
    """

    unsettled: bool = False
    sql_modes: frozenset[str] = frozenset()
    may_use: bool = False
    temporary: bool = False
    consumer: str = ""
    lease: str | None = "time"
    streams: StreamMemory = field(default_factory=StreamMemory)
    reach: Reach = Reach.UNKNOWN
    sets_reach: bool = False


class ClientSession:
    """One logged-in client. `notes` are the warnings of a statement that the proxy answered itself, or its error."""

    def __init__(
        self,
        identity: Identity,
        upstream: Upstream,
        writer: AnswerWriter,
        clock: Clock,
        database: str | None,
        backend: BackendConnection,
    ) -> None:
        self.identity = identity
        self.upstream = upstream
        self.writer = writer
        self.database = database
        self.substituted = False
        """Whether the current database is `queuegate`, and the server has none of that name (login.system_database)."""
        self.scope = TransactionScope()
        self.subscription: OpenStream | None = None
        self._retained: list[Subscription] = []
        self.settings = StatementSettings()
        self.backend = backend
        self.notes: tuple[tuple[str, int, str], ...] = ()
        self.rights: SessionRights | None = None
        """What the proxy's own account may do to queues and topics, and nothing else; None: it is not limited here."""
        self.admin = False
        """Whether it may end other users' connections, where that is the proxy's decision."""
        self._clock = clock
        self._activity: tuple[float, str | None] = clock.monotonic(), None
        """Since when it runs a statement, or, with None, has ended the last."""

    def __repr__(self) -> str:
        info = self.process_info()
        return f"<ClientSession {info.connection_id} {info.user}@{info.host} {info.command} {self.scope!r}>"

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, by the server's flags."""
        return bool(self.upstream.status & IN_TRANSACTION)

    @property
    def no_backslash_escapes(self) -> bool:
        """Whether a backslash in a string is only a backslash (sql_mode), by the server's flags."""
        return bool(self.upstream.status & NO_BACKSLASH_ESCAPES)

    @property
    def ansi_quotes(self) -> bool:
        """Whether double quotes are for names, by the server's flags; only MariaDB has that one."""
        return bool(self.upstream.status & ANSI_QUOTES)

    def reporter(self) -> str:
        """Who reports that a message has failed, as it is stored in the message's attempts."""
        identity = self.identity
        return receiver_members(self.settings.consumer or identity.program, identity.account, identity.connection_id)

    def reading_modes(self) -> frozenset[str]:
        """The sql_modes that affect the parser."""
        status = self.upstream.status
        reported = _MODES_REPORTED[bool(status & NO_BACKSLASH_ESCAPES), bool(status & ANSI_QUOTES)]
        return reported | _ANSI if "ANSI_QUOTES" in self.settings.sql_modes else reported

    @property
    def database_at_server(self) -> str | None:
        """The current database as the server knows it."""
        return SUBSTITUTE_DATABASE if self.substituted and self.database == SYSTEM_DATABASE else self.database

    def change_identity(self, identity: Identity, database: str | None) -> None:
        """COM_CHANGE_USER: another account on the same connection."""
        self.reset()
        self.set_database(database)
        self.identity, self.settings.unsettled = identity, False
        self.writer.capabilities = identity.capabilities

    def set_database(self, database: str | None) -> None:
        """The current database is one of the server's own, whatever its name."""
        self.database, self.substituted = database, False

    def enter_substituted(self) -> None:
        """The current database is `queuegate`, and the server has none of that name."""
        self.database, self.substituted = SYSTEM_DATABASE, True

    def on_database_reported(self, reported: str) -> None:
        """The current database, as the server reports it."""
        if self.substituted and reported == SUBSTITUTE_DATABASE:
            self.enter_substituted()
        else:
            self.set_database(reported or None)

    def retain(self, subscription: Subscription) -> None:
        """It leaves messages leased by this connection, or keys assigned to it. Of each queue the last one is retained,
        for its end."""
        queue = subscription.queue.name
        retained = [one for one in self._retained if one.queue.name != queue or not one.has_ended or one.unacked]
        self._retained = [*retained, subscription]

    async def release_retained(self) -> None:
        """Release the leases of the connection's results that have ended, and end what else they have."""
        retained, self._retained = self._retained, []
        for subscription in retained:
            await subscription.connection_ended()

    def reset(self) -> None:
        """COM_RESET_CONNECTION: the state after the login, but for the default database, which stays."""
        self.notes, self.settings = (), StatementSettings(unsettled=True)

    def busy(self, statement: str | None) -> None:
        """A command begins (or, with None, has ended)."""
        self._activity = self._clock.monotonic(), statement and statement[:_INFO_MAX_CHARS]

    def pinned(self, sql: str, pins: Pins) -> str:
        """A statement of the proxy's own, as it does not depend on these settings of this session."""
        return sql if pins is Pins.NOTHING else self.backend.pins().pinned(sql, pins)

    def sending(self, effects: Effects) -> float | None:
        """A statement goes to the database: the moment, where the report of its commit needs it."""
        return None if effects.delay_ns is None else self._clock.monotonic()

    @property
    def running(self) -> bool:
        """Whether a command is being answered."""
        return self._activity[1] is not None

    def abandon(self) -> CommitReport | None:
        """The session is over; the report on its open transaction for the engine."""
        return self.scope.abandon()

    def streaming_queue(self) -> QueueName | None:
        """The queue being streamed, if any."""
        return None if self.subscription is None else self.subscription.status().queue

    def process_info(self) -> ProcessInfo:
        """This session's row in SHOW PROCESSLIST."""
        queue, (since, statement), backend_id = self.streaming_queue(), self._activity, self.backend.backend_id
        return ProcessInfo(
            connection_id=self.identity.connection_id,
            user=self.identity.user,
            host=self.identity.host,
            database=self.database,
            command="Sleep" if statement is None else "Query",
            seconds=int(self._clock.monotonic() - since),
            state="" if queue is None else f"Streaming messages of {queue}",
            info=statement,
            streaming=queue is not None,
            detached=not self.upstream.alive,
            proxied=backend_id is not None,
            backend_id=None if backend_id is None else backend_id(),
        )


MakeCondition = Callable[[ClientSession, QueueName, StreamFilter, Sequence[object], int | None], Awaitable[Condition]]
"""From a filter and its values to the engine's condition; the last: see StatementPins.waiting.

Raises ClientFault kinds: the database or the account does not allow it.
"""


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What differs between backends for the executor.

    `accounts`: the database knows the client and its rights. `one_account`: a server, all of whose connections have the
    backend's own account. `condition`: makes a stream's WHERE. `check_stream`: refuses a stream in a state of the
    session in which nothing could be delivered. `partitions`: whether its tables can have them.
    `holds_writer`: whether the session's transaction blocks all other writers, where one can.
    """

    accounts: bool
    condition: MakeCondition
    one_account: bool = False
    check_stream: Callable[[ClientSession], None] | None = None
    partitions: bool = True
    holds_writer: Callable[[ClientSession], bool] | None = None
