"""SessionMemory: the state of a session without a connection to the database, to restore it on the next
connection.

Lives here: which statements need no database yet (they are remembered, and repeated on the next connection), which ones
leave nothing behind but what can be repeated, and the known state of the session meanwhile. No I/O.

A statement is one of three. *Deferred*: a setting that is valid for certain; the client is answered OK and no
connection is opened for it. *Repeatable*: a setting that the database has accepted; it is sent on another connection,
too. *Pinning*: everything of which not the whole effect is known; from then on the session is on its connection.
"""

from __future__ import annotations

from enum import Enum

from mysql_wire.status_flags import ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES
from proxy.rights.kinds import (
    Act,
    LimitedStatement,
    QueueStatement,
    SessionQuery,
    SessionSettings,
    Setting,
    Step,
    TransactionStep,
    Use,
)
from proxy.rights.variables import REPEATABLE, switch_value
from proxy.upstream.server_profile import BackendProfile

_REPEATED_MAX = 64  # settings; a driver sends half a dozen; a session that sets more is on its connection
_REPEATED_MAX_BYTES = 16 * 1024  # of all of them together: sql_mode at its longest has 700


_CHARSETS = ("names", "character set", "character_set_results")
_NOTED = ("autocommit", *_CHARSETS)  # what they are set to has to be known


class Unknown(Enum):
    """In place of a character set: only the database knows."""

    UNKNOWN = "unknown"


class SessionMemory:
    """See the module. `charset` is the collation id that the client logged in with. `plain`: on every connection of
    this session backslashes escape and double quotes are strings, whatever the server's sql_mode."""

    def __init__(self, profile: BackendProfile, charset: int, *, plain: bool = False) -> None:
        self._profile = profile
        self._charset = charset
        self._flags = AUTOCOMMIT if plain else AUTOCOMMIT | NO_BACKSLASH_ESCAPES | ANSI_QUOTES
        self.reset()

    def __repr__(self) -> str:
        return f"<SessionMemory repeated={len(self.repeated)} status={self.status:#06x}>"

    def reset(self) -> None:
        """As after the login."""
        self.repeated: list[bytes] = []
        self.status = self._profile.session_status & self._flags
        self.results_charset: str | Unknown | None = self._profile.charset_of(self._charset) or Unknown.UNKNOWN

    @property
    def autocommit(self) -> bool:
        return bool(self.status & AUTOCOMMIT)

    def was(self, status: int) -> None:
        """A connection has ended, whose status flags were these; what it had open is no more."""
        self.status = status & self._flags

    # --- without a connection

    def deferred(self, statement: LimitedStatement, text: bytes, current: str | None) -> bool:
        """Whether a session without a connection can do without one for this, too; if so, it is remembered.

        `current` is the session's database.
        """
        match statement:
            case TransactionStep(step, plain):
                return plain and step in (Step.COMMIT, Step.ROLLBACK)
            case Use(database):
                return database == current and text.isascii()  # other letters depend on the character set
            case SessionSettings(settings, transaction):
                valid = transaction or (bool(settings) and all(self._certainly_valid(s) for s in settings))
                return valid and self._remember(settings, text)
            case _:
                return False

    def _certainly_valid(self, setting: Setting) -> bool:
        if setting.default or setting.appended or setting.computed or setting.value is None:
            return setting == Setting("character_set_results", None)
        if setting.variable in ("names", "character set"):
            return self._profile.supports(setting.value, setting.collation)
        if setting.variable == "character_set_results":
            return self._profile.supports(setting.value)
        return setting.variable == "autocommit" and switch_value(setting.value) is not None

    # --- with a connection

    def repeatable(self, statement: LimitedStatement | None, text: bytes) -> bool:
        """Whether another connection can be brought to where this statement, which has succeeded, has brought this
        one."""
        match statement:
            case SessionSettings(settings, transaction):
                can_be_repeated = transaction or (bool(settings) and all(map(_can_be_repeated, settings)))
                return can_be_repeated and self._remember(settings, text)
            case Use():
                return True
            case SessionQuery(_, connection_id):
                return not connection_id
            case TransactionStep(step):
                return step is not Step.NEXT  # what is open shows in the status flags
            case QueueStatement(act):
                return act is Act.SETTLE  # an INSERT leaves LAST_INSERT_ID()
            case None:
                return False

    def _remember(self, settings: tuple[Setting, ...], text: bytes) -> bool:
        if text in self.repeated:
            self.repeated.remove(text)  # the order counts: the last of two that set the same wins
        size = sum(map(len, self.repeated)) + len(text)
        if not text.isascii() or len(self.repeated) >= _REPEATED_MAX or size > _REPEATED_MAX_BYTES:
            return False
        self.repeated.append(text)
        for setting in settings:
            self._note(setting)
        return True

    def _note(self, setting: Setting) -> None:
        if setting.variable == "autocommit":
            on = switch_value(setting.value)
            self.status = self.status | AUTOCOMMIT if on or setting.default else self.status & ~AUTOCOMMIT
        elif setting.variable in _CHARSETS:
            known = setting.value is None or self._profile.supports(setting.value)  # a number is none
            self.results_charset = setting.value if known and not setting.default else Unknown.UNKNOWN


def _can_be_repeated(setting: Setting) -> bool:
    return setting.variable in REPEATABLE and not (setting.computed and setting.variable in _NOTED)
