"""The form that creates a queue or a topic. It shows the statement as it is filled in, and runs the same statement.

Names go through the quoting functions; a column's type is one of a list, with whole numbers in it; options are text,
and the proxy checks them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from console.database import name_sql, queue_sql
from console.pages.visible_queues import forget_queues, visible_queues
from console.rendering import link
from console.visits import NAME_MAX, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.queue import QueueName
from rewriter.text.literals import plain_literal

COLUMNS_MAX = 12
TYPES = {
    "varchar": ("VARCHAR", 255),
    "text": ("TEXT", 0),
    "bigint": ("BIGINT", 0),
    "int": ("INT", 0),
    "decimal": ("DECIMAL(20, 6)", 0),
    "double": ("DOUBLE", 0),
    "boolean": ("BOOLEAN", 0),
    "datetime": ("DATETIME(6)", 0),
    "date": ("DATE", 0),
    "json": ("JSON", 0),
    "longtext": ("LONGTEXT", 0),
    "longblob": ("LONGBLOB", 0),
}
"""The types of a column, and the length that one has by default; 0: it has none. The first is the default: a key of an
order or of groups may have it."""
_LENGTH_MAX = 16_000

OPTIONS = (
    ("ack_wait", "time to ack before a message is delivered again", "30s"),
    ("max_attempts", "deliveries before it is a dead letter; 0: for ever", "0"),
    ("min_backoff", "wait after the first failure, doubling", "1s"),
    ("max_backoff", "longest wait after a failure", "1h"),
    ("purge_after", "acked messages are deleted at this age", "1d"),
    ("max_rate", "deliveries per second, all receivers together", "none"),
    ("max_concurrency", "messages in flight, all receivers together", "none"),
    ("order_key", "a column: messages with equal values go one at a time", "none"),
    ("alarm_after", "a longer lease raises an alarm", "none"),
)
TOPIC_OPTIONS = (
    ("retain", "messages older than this are deleted", "none"),
    ("retain_rows", "so many of the last messages are kept", "none"),
    ("retain_bytes", "about so many bytes are kept, such as 10g", "none"),
    ("compact", "a column: of equal values only the newest message is kept", "none"),
    ("trace_keep", "how long the history of messages is stored", "off"),
)
"""The options of the form: name, meaning, and what holds where the field is left empty; of queues, and of topics."""

KINDS = ("queue", "topic")

_NO_OPTION = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class Form:
    """What the empty form needs. `kind`: one of KINDS; `databases`: those in which there are queues."""

    kind: str
    databases: tuple[str, ...]
    database: str
    types: tuple[str, ...]
    options: tuple[tuple[str, str, str], ...]
    columns: int


@dataclass(frozen=True, slots=True)
class Composed:
    """The statement, or why there is none yet. `values`: its parameters."""

    sql: str
    values: tuple[str | bytes, ...]
    mistake: str = ""

    @property
    def text(self) -> str:
        """To be read, in the form that every SQL mode understands but NO_BACKSLASH_ESCAPES, in which the values have
        no backslash anyway."""
        values = iter(self.values)
        return re.sub("%[%s]", lambda mark: "%" if mark[0] == "%%" else plain_literal(next(values)), self.sql)


async def read_form(visit: Visit) -> Form:
    """The empty form."""
    databases = tuple(dict.fromkeys(each.queue.database for each in await visible_queues(visit)))
    selected = visit.text("db", most=NAME_MAX) or (databases[0] if databases else "main")
    kind = _kind(visit)
    return Form(kind, databases, selected, tuple(TYPES), OPTIONS if kind == "queue" else TOPIC_OPTIONS, COLUMNS_MAX)


def _kind(visit: Visit) -> str:
    return visit.choice("kind", KINDS, "queue")


async def read_composed(visit: Visit) -> Composed:
    """The statement of what is filled in so far."""
    return so_far(composed, visit)


def so_far(compose: Callable[[Visit], Composed], visit: Visit) -> Composed:
    """The statement, or why the form has none yet."""
    try:
        return compose(visit)
    except BadInput as error:
        return Composed("", (), str(error))


def composed(visit: Visit) -> Composed:
    """The statement of a form. Raises BadInput."""
    queue = visit.queue
    columns = [column for n in range(1, COLUMNS_MAX + 1) if (column := _column(visit, n))]
    if not columns:
        raise BadInput("give at least one column: the body of a message")
    lines, kind = ",\n  ".join(columns), _kind(visit)
    options, values = option_settings(visit, OPTIONS if kind == "queue" else TOPIC_OPTIONS)
    ending = f" WITH ({', '.join(options)})" if options else ""
    return Composed(f"CREATE {kind.upper()} {queue_sql(queue)} (\n  {lines}\n){ending}", tuple(values))


def _column(visit: Visit, n: int) -> str:
    name = visit.text(f"column{n}", most=NAME_MAX).strip()
    if not name:
        return ""
    word, default = TYPES[visit.choice(f"type{n}", tuple(TYPES), next(iter(TYPES)))]
    length = f"({visit.whole(f'length{n}', default, _LENGTH_MAX)})" if default else ""
    required = " NOT NULL" if visit.choice(f"null{n}", ("null", "required"), "null") == "required" else ""
    return f"{name_sql(name)} {word}{length}{required}"


def option_settings(visit: Visit, known: Sequence[tuple[str, str, str]]) -> tuple[list[str], list[str]]:
    """What of WITH is filled in, and its values. Raises BadInput."""
    options, values = [], []
    for name, _, _ in known:
        value = visit.text(name, most=100).strip()
        if value:
            check_option(name, value)
            options.append(f"{name} = %s")
            values.append(value)
    return options, values


def check_option(name: str, value: str) -> None:
    """Raises BadInput: no option has such a value. A filter may have several lines."""
    if _NO_OPTION.search(re.sub(r"[\t\n]", " ", value) if name == "filter" else value):
        raise BadInput(f"{name}: has a character that no option has")


async def create(visit: Visit) -> Done:
    """Run the statement of the form."""
    what = composed(visit)
    await visit.session.database.change(what.sql, *what.values)
    forget_queues(visit)
    queue: QueueName = visit.queue
    path = "/queue" if _kind(visit) == "queue" else "/topic"
    return Done(f"{queue} is created", link(path, db=queue.database, name=queue.table), what.text)


_PARAMETERS = (
    Parameter("db", "the database", required=True),
    Parameter("name", "the queue's name", required=True),
    Parameter("kind", f"one of {', '.join(KINDS)}; a queue by default"),
    Parameter("column1", f"the name of its first column, up to column{COLUMNS_MAX}", required=True),
    Parameter("type1", f"the type of that column, up to type{COLUMNS_MAX}: one of {', '.join(TYPES)}"),
    Parameter("length1", f"of a varchar, up to length{COLUMNS_MAX}"),
    Parameter("null1", f"`required` for NOT NULL, up to null{COLUMNS_MAX}"),
    *(Parameter(name, meaning) for name, meaning, _ in (*OPTIONS, *TOPIC_OPTIONS)),
)

PAGES = (Page(read_form, "A form that creates a queue or a topic", "/create", "create.html", nav="New queue"),)
PARTS_OF_FORMS = (Page(read_composed, "The statement of the form", "/create/sql", "create_sql.html"),)
ACTIONS = (Action(create, "Create a queue or a topic", "/create", "/queues", _PARAMETERS, "/create"),)
