"""A queue's options: what each is set to, what it is by default, what it means, and a form that changes them.

They are read from SHOW CREATE QUEUE, by the proxy's own grammar. The form sends each field with the value that it was
shown with (`was_...`), so that only changed fields are in the ALTER QUEUE; an empty field is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.database import queue_sql
from console.pages.create_queue import Composed, check_option, so_far
from console.pages.visible_queues import forget_queues
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.errors import ClientError
from engine.model.queue import QueueName
from rewriter.grammar.parse import parse
from rewriter.grammar.statements import CreateQueue

_WAS = "was_"
REFERENCE = "docs/reference-options.md"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of an option. `default`: as docs/reference-options.md has it; `groups`: whether consumer groups
    have it, `queues`: whether other queues have it."""

    name: str
    default: str
    meaning: str
    queues: bool = True
    groups: bool = True


KINDS = (
    Kind("ack_wait", "30s", "time a receiver has to ack before the message may be sent again"),
    Kind("min_backoff", "1s", "lower bound and base of the doubling retry delay; ack_wait: as long as that"),
    Kind("max_backoff", "1h", "upper bound of the retry delay"),
    Kind("backoff", "none", "retry delays in place of doubling, such as 10s,30s,1m,10m"),
    Kind("max_attempts", "0 = for ever", "deliveries before the message goes to the dead-letter queue"),
    Kind("keep_attempts", "10", "how many failed attempts of a message are stored"),
    Kind("dead_letter", "q_dead", "the dead-letter queue's name", groups=False),
    Kind("alarm_after", "none", "a message that is leased for longer raises an alarm"),
    Kind("max_rate", "none", "deliveries per second, all receivers and proxies together"),
    Kind("max_concurrency", "none", "messages in flight at a time, all receivers and proxies together"),
    Kind("order_key", "none", "a column: equal values go out one at a time; *: the whole queue"),
    Kind("on_failure", "block", "what an ordered key does with a failing message: block, skip or dead_letter"),
    Kind("sharding_key", "none", "a column: its hash is a message's place on the ring of key ranges", groups=False),
    Kind("sticky_wait", "1s", "so late a message of a sticky receiver goes to others", groups=False),
    Kind("paused", "0", "1: the queue delivers nothing"),
    Kind("batch_size", "100", "most messages handed to one receiver at a time"),
    Kind("prefetch", "1000", "most unacked messages one receiver may hold"),
    Kind("cache_size", "10000", "most messages cached in memory"),
    Kind("poll_interval", "30s", "safety scan for messages written around the proxy; also the purge period"),
    Kind("message_cols", "all user columns", "columns streamed by *, as id|a|b; begins with id", groups=False),
    Kind("purge_after", "1d", "acked messages are deleted at this age"),
    Kind("archive", "0", "1: acked messages stay until an archiving job has copied them", groups=False),
    Kind("group_key", "none", "a column: messages with equal value form an event group", groups=False),
    Kind("retain", "topic", "until_consumed: the topic keeps messages until the group has acked them", queues=False),
    Kind("filter", "none", "a condition on the topic's columns: the group gets the messages that match", queues=False),
    Kind("dead_letter_of", "none", "the queue that REDRIVE puts its messages back into", groups=False),
)
"""The options that may be changed, in the order of the reference."""

_NAMES = frozenset(kind.name for kind in KINDS)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the queue. `value`: as WITH has it, empty where the default holds; it may be given all the same."""

    name: str
    value: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class OptionsPage:
    """What the page shows. `group` and `topic`: where it is the queue of a consumer group. `definition`: the statement
    that makes the queue again. `reference`: where all options are documented. `unread`: why they cannot be shown."""

    queue: QueueName
    options: tuple[Option, ...]
    topic: str
    group: str
    definition: str
    reference: str
    unread: str = ""


async def read_options(visit: Visit) -> OptionsPage:
    """See the module."""
    queue = visit.queue
    answer = await visit.session.database.read(f"SHOW CREATE QUEUE {queue_sql(queue)}")
    definition = str(answer.rows[0]["Create Queue"])
    try:
        explicit = explicit_options(definition)
    except ValueError as error:
        return OptionsPage(queue, (), "", "", definition, REFERENCE, str(error))
    topic, group = explicit.get("topic", ""), explicit.get("consumer_group", "")
    return OptionsPage(queue, options_of(explicit, of_group=bool(topic)), topic, group, definition, REFERENCE)


def explicit_options(definition: str) -> Mapping[str, str]:
    """The options of a CREATE QUEUE. Raises ValueError where it cannot be read."""
    try:
        statement = parse(definition)
    except ClientError as error:
        raise ValueError(f"the definition cannot be read: {error}") from error
    if not isinstance(statement, CreateQueue):
        raise ValueError("the definition is not a CREATE QUEUE")
    return {name.lower(): str(value) for name, value in statement.options.items()}


def options_of(explicit: Mapping[str, str], *, of_group: bool) -> tuple[Option, ...]:
    """Those that such a queue may have."""
    return tuple(
        Option(kind.name, explicit.get(kind.name, ""), kind.default, kind.meaning)
        for kind in KINDS
        if (kind.groups if of_group else kind.queues)
    )


async def read_composed(visit: Visit) -> Composed:
    """The statement of what is filled in so far."""
    return so_far(composed, visit)


def composed(visit: Visit) -> Composed:
    """The statement of the form. Raises BadInput."""
    settings, values = [], []
    for kind in KINDS:
        if kind.name not in visit.params:
            continue
        value = visit.text(kind.name).strip()
        if visit.params.get(_WAS + kind.name, "\0").strip() == value:
            continue
        if not value:
            settings.append(f"{kind.name} = DEFAULT")
            continue
        check_option(kind.name, value)
        settings.append(f"{kind.name} = %s")
        values.append(value)
    if not settings:
        raise BadInput("nothing is changed yet")
    return Composed(f"ALTER QUEUE {queue_sql(visit.queue)} SET ({', '.join(settings)})", tuple(values))


async def change(visit: Visit) -> Done:
    """Run the statement of the form."""
    unknown = sorted(
        name for name in visit.params if name.removeprefix(_WAS) not in _NAMES and name not in ("db", "name", "token")
    )
    if unknown:
        raise BadInput(f"{unknown[0][:64]}: there is no such option; allowed: {', '.join(sorted(_NAMES))}")
    what, queue = composed(visit), visit.queue
    answer = await visit.session.database.change(what.sql, *what.values)
    forget_queues(visit)
    where = link("/queue/options", db=queue.database, name=queue.table)
    return Done(f"the options of {queue} are changed, with effect at once", where, answer.sql)


_PARAMETERS = (*QUEUE_PARAMETERS, *(Parameter(k.name, f"{k.meaning}; empty: the default") for k in KINDS))

PAGES = (
    Page(
        read_options, "The options of a queue", "/queue/options", "queue_options.html", "/queue/options",
        QUEUE_PARAMETERS,
    ),
)  # fmt: skip
PARTS_OF_FORMS = (Page(read_composed, "The statement of the form", "/queue/options/sql", "create_sql.html"),)
ACTIONS = (
    Action(
        change,
        "Change options of a queue; options that are left out do not change",
        "/queue/options",
        "/queue/options",
        _PARAMETERS,
        "/queue/options",
    ),
)
