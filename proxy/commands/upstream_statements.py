"""UpstreamStatements: the prepared statements that the database has for a client, and the effects of each."""

from __future__ import annotations

from dataclasses import replace

from mysql_mimic.types import Commands

from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.requests import LAST_PREPARED
from proxy.statements.prepared_inserts import PreparedInsert
from rewriter.plan import NO_EFFECTS, Effects

EXECUTIONS = (Commands.COM_STMT_EXECUTE, BULK_EXECUTE)

_NOT_FAST = Effects(catalog=True)


class UpstreamStatements:
    """See the module. `last`: the statement that was prepared last, the database's or the proxy's."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.effects: dict[int, Effects] = {}
        """Of the statements that do something to queues, or that must not take the fast path."""
        self.repeatable: set[int] = set()
        """Those that are one statement of the proxy's, and whose values are all in the command that executes them."""
        self.inserts: dict[int, PreparedInsert] = {}
        """Those that add one message to a queue."""
        self._uses: dict[int, str] = {}  # prepared USE statements
        self._settings: dict[int, bytes] = {}  # others after which the statements to come may be read differently

    def add(
        self, number: int, effects: Effects, *, repeatable: bool = False, insert: PreparedInsert | None = None
    ) -> None:
        """The database has prepared a statement. `repeatable`: see Upstream.command."""
        self.last = number
        if insert is not None:
            self.inserts[number] = insert
        if repeatable:
            self.repeatable.add(number)
        if not effects.empty:
            self.effects[number] = effects

    def add_use(self, number: int, database: str) -> None:
        """The database has prepared a USE."""
        self.add(number, _NOT_FAST)
        self._uses[number] = database

    def add_setting(self, number: int, text: bytes) -> None:
        """The database has prepared a statement that may change how others are read."""
        self.add(number, _NOT_FAST)
        self._settings[number] = text

    def number(self, payload: bytes) -> int:
        """Which statement a command is about."""
        number = int.from_bytes(payload[1:5], "little")
        return self.last if number == LAST_PREPARED and self.last is not None else number

    def effects_of(self, command: int, number: int) -> Effects:
        """What a command on this statement does to queues."""
        if command not in EXECUTIONS or number in self._uses or number in self._settings:
            return NO_EFFECTS
        effects = self.effects.get(number, NO_EFFECTS)
        # Of many sets of parameters the answer does not show which rows got which ids.
        return replace(effects, numbered=False) if effects.numbered and command == BULK_EXECUTE else effects

    def database_after(self, number: int) -> str | None:
        """The current database after this statement was executed, where it is a USE."""
        return self._uses.get(number)

    def setting(self, number: int) -> bytes | None:
        """The text of this statement, where it may change how others are read."""
        return self._settings.get(number)

    def long_data(self, number: int) -> None:
        """COM_STMT_SEND_LONG_DATA: the database has this value, for one execution."""
        self.repeatable.discard(number)
        if number in self.inserts:
            self.inserts[number].long_data = True

    def close(self, number: int) -> None:
        """COM_STMT_CLOSE."""
        for by_number in (self.effects, self._uses, self._settings, self.inserts):
            by_number.pop(number, None)
        self.repeatable.discard(number)
        if number == self.last:
            self.last = None

    def clear(self) -> None:
        """The session has begun again."""
        self.last = None
        for by_number in (self.effects, self._uses, self._settings, self.repeatable, self.inserts):
            by_number.clear()
