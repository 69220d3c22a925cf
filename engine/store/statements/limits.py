"""The SQL of limits: the row that is locked for a claim, and what is in flight."""

from __future__ import annotations

from engine.model.queue import QueueSpec, quoted
from engine.model.states import in_flight
from engine.store.statements.dialect import Dialect


class LimitStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        database, table = quoted(queue.name.database), dialect.gate.of(queue)
        limits = dialect.gate.own(queue.name.database, "queuegate_limits")
        condition = in_flight(dialect.now_ns, dialect.mark)
        self.make = dialect.make_limits.format(database=database)
        """Creates the table of limits, if there is none."""

        self.proof = limits.proof
        """Sent before `add`."""

        self.add = dialect.add_limits.format(database=database)
        """Creates the queue's row in it, if there is none."""

        self.lock = f"SELECT arrival_ns FROM {limits} WHERE queue_name = ? {dialect.lock}".rstrip()
        """The queue's row, locked: concurrent claims of this queue, in any process, wait here."""

        self.charge = f"UPDATE {limits} SET arrival_ns = ? WHERE queue_name = ?"
        """Store the state of the rate limit."""

        self.in_flight = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE {condition} LIMIT ?) AS held"
        """How many messages are in flight, counted up to `?`."""

        self.first_end = f"SELECT MIN(time_next) FROM {table} WHERE {condition}"
        """When the first of their leases ends."""
