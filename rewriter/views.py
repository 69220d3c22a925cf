"""Everything that is shown of queues: its words in SHOW, its name as a table of `queuegate`, and who may see it.

A view has one line here. The scanner and the grammar take the words from it, the guard the access; its columns are in
`proxy.show.status_tables`, its rows in `proxy.show.queue_status`. How one is added: docs/architecture.md.
"""

from __future__ import annotations

from enum import Enum


class Scope(Enum):
    """What a SHOW may have after its words, or has in the place of `?`."""

    DATABASE = "[FROM database] [LIKE 'pattern']"
    TOPIC = "[ON topic] [FROM database] [LIKE 'pattern']"
    QUEUE = "a queue"
    SCHEDULE = "a schedule"
    SERVER = "nothing"


class Access(Enum):
    """What an account needs. Where accounts are the database's own, it decides as well."""

    ROWS = "nothing: the rows are those that it may see"
    QUEUE = "to know of the queue"
    UNLIMITED = "no limits"
    PROCESS = "to know of all connections"


class View(Enum):
    """`words` after SHOW, `?` for a name, empty where it is a table alone; `table` in `queuegate`, empty where it is
    none. Of SHOWs that begin alike the longer comes first."""

    def __init__(
        self, words: str, table: str = "", scope: Scope = Scope.DATABASE, access: Access = Access.ROWS
    ) -> None:
        self.words = words
        self.table = table
        self.scope = scope
        self.access = access

    QUEUES = ("QUEUES",)
    QUEUE_OPTIONS = ("QUEUE ? OPTIONS", "", Scope.QUEUE, Access.QUEUE)
    QUEUE_RANGES = ("QUEUE ? RANGES", "", Scope.QUEUE, Access.QUEUE)
    QUEUE_STATUS = ("QUEUE STATUS", "queues")
    SUBSCRIPTIONS = ("SUBSCRIPTIONS", "subscriptions")
    IN_FLIGHT = ("", "in_flight")
    TOPICS = ("TOPICS", "topics")
    GROUPS = ("GROUPS", "groups", Scope.TOPIC)
    CONSUMERS = ("CONSUMERS", "consumers", Scope.TOPIC)
    GROUP_IN_FLIGHT = ("", "group_in_flight")
    TRACES = ("", "traces")
    SCHEDULES = ("SCHEDULES", "schedules")
    LOG = ("", "log", Scope.SERVER, Access.PROCESS)
    SETTINGS = ("", "settings", Scope.SERVER, Access.PROCESS)
    CREATE_QUEUE = ("CREATE QUEUE ?", "", Scope.QUEUE, Access.QUEUE)
    CREATE_SCHEDULE = ("CREATE SCHEDULE ?", "", Scope.SCHEDULE, Access.UNLIMITED)
    FULL_PROCESSLIST = ("FULL PROCESSLIST", "", Scope.SERVER)
    PROCESSLIST = ("PROCESSLIST", "", Scope.SERVER)


SHOW_VIEWS = tuple(view for view in View if view.words)
"""What a SHOW has words for."""

SYSTEM_TABLES = {view.table: view for view in View if view.table}
"""The tables of `queuegate` by their names."""
