"""Classifies every statement cheaply: does it concern queues at all?

Runs on the hot path of every client, so: the leading verb decides, a few anchored patterns follow, nothing is decoded
or tokenised, and literals of megabytes are not read. Fail safe: where a statement might be a queue statement it returns
PLAN, and the planner, which does parse, may still treat it as ordinary SQL. What it cannot see (stored programs,
triggers, PREPARE ... FROM text) is found by the engine's poller.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from engine.model.identity import highest_explicit_id
from engine.model.queue import Layout, QueueCatalog, QueueName
from engine.model.sharded import gives_ids_over_shards
from rewriter.plan import NO_EFFECTS, Effects
from rewriter.scan.named_columns import NUMBERS, names_column, sets_id, values_of_own_columns
from rewriter.scan.named_ids import ending, key_kind, settled_ids
from rewriter.scan.socket_variable import reads_socket
from rewriter.text.lexis import (
    GAP,
    IDENTIFIER,
    MAYBE_GAP,
    OF_STATEMENT,
    QUALIFIED,
    SET_STATEMENT,
    SPACE,
    WORD_END,
    has_executable,
    is_compound,
    is_unread,
    leading_verb,
    split_statements,
)
from rewriter.text.queue_names import SYSTEM_DATABASE, QueueNames, Undecidable
from rewriter.text.shown_defaults import may_show_defaults
from rewriter.text.transaction_verbs import transaction_verb, verb_of
from rewriter.views import SHOW_VIEWS, SYSTEM_TABLES

__all__ = ["Classification", "StatementClass", "StatementScanner", "split_statements", "transaction_verb"]

_SEARCH_MAX = 65536  # bytes in which a word is searched
_SEMICOLONS_MAX = 1000  # after each of which a verb is searched; with more, the text is split into its statements
_SHORT = 512  # bytes of an INSERT whose values are searched sooner than its list of columns is read
_NAME_MAX = 256  # bytes of what names a table, with what is before it, where it is remembered
_TARGETS_MAX = 4096  # remembered names
_UNSEEN = QueueName("", "")  # of no table
_FORM_MAX = 8192  # of an INSERT that a form made: the queue's own columns come first in it


class StatementClass(Enum):
    """How far a statement concerns queues. NONE and TOUCHES: to the database unchanged. USE (it may change how names
    and texts of statements to come are read), PLAN: to the planner."""

    NONE = "none"
    TOUCHES = "touches"
    USE = "use"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Classification:
    """The result. `effects` are those of the statement if it is run unchanged (also with PLAN)."""

    kind: StatementClass
    effects: Effects = NO_EFFECTS


_NOTHING = Classification(StatementClass.NONE)
_PLAN = Classification(StatementClass.PLAN)
_USE = Classification(StatementClass.USE)
_CATALOG = Classification(StatementClass.TOUCHES, Effects(catalog=True))


def _pattern(text: bytes) -> re.Pattern[bytes]:
    return re.compile(text, re.IGNORECASE)


def _words(*words: bytes) -> bytes:
    """Any number of these words, as MySQL's modifiers come."""
    return rb"(?>(?:(?:" + b"|".join(words) + rb")" + WORD_END + SPACE + rb")*)"


_FROM_STREAM = _pattern(rb"FROM" + GAP + rb"STREAM" + MAYBE_GAP + rb"[\w$`\"\x80-\xff]")
_QUEUE_FUNCTION = _pattern(rb"queue_(?:ack|nack|reject|release|renew)`?" + MAYBE_GAP + rb"\(")
_SYSTEM_TABLES = b"(?:" + "|".join(SYSTEM_TABLES).encode() + b")"
_SYSTEM_TABLE = _pattern(
    rb"queuegate[`\"]?+" + MAYBE_GAP + rb"\." + MAYBE_GAP + rb"[`\"]?+" + _SYSTEM_TABLES + WORD_END
)
_NAME = SYSTEM_DATABASE.encode()
_SYSTEM_NAME = _pattern(rb"\b" + _SYSTEM_TABLES + rb"\b")
_INFORMATION = _pattern(
    rb"information_schema[`\"]?+" + MAYBE_GAP + rb"\." + MAYBE_GAP + rb"[`\"]?+(?:tables|columns|schemata)" + WORD_END
)
_INSERT = _pattern(SPACE + _words(b"LOW_PRIORITY", b"DELAYED", b"HIGH_PRIORITY", b"IGNORE", b"INTO") + QUALIFIED)
_ROWS = _pattern(SPACE + rb"(?:\([^()]*+\)" + SPACE + rb")?(?:VALUES?" + SPACE + rb"\(|SET" + WORD_END + rb")")
_LARGE = {digits: _pattern(rb"[0-9]{%d}" % digits) for digits in range(1, 20)}
_NOT_EACH_ROW = _pattern(rb"\b(?:IGNORE|DELAYED)\b")
_UPDATE = _pattern(
    SPACE + _words(b"LOW_PRIORITY", b"IGNORE") + QUALIFIED + SPACE
    + rb"(?:(?:AS" + WORD_END + SPACE + rb")?" + IDENTIFIER + SPACE + rb")?SET" + WORD_END
)  # fmt: skip
_DELETE = _pattern(
    SPACE + _words(b"LOW_PRIORITY", b"QUICK", b"IGNORE", b"HISTORY") + rb"FROM" + WORD_END + SPACE + QUALIFIED + SPACE
    + rb"(?:(?:AS" + WORD_END + SPACE + rb")?" + IDENTIFIER + SPACE + rb")?"
    + rb"(?:;|\Z|(?:(?P<where>WHERE)|ORDER|LIMIT|RETURNING)" + WORD_END + rb")"
)  # fmt: skip
_LOAD_TARGET = _pattern(rb"INTO" + GAP + rb"TABLE" + GAP + QUALIFIED)
_QUEUE_OBJECT = SPACE + rb"(?:(QUEUE|TOPIC|GROUP|SCHEDULE)|"
_CREATE = _pattern(
    _QUEUE_OBJECT + rb"(DATABASE|SCHEMA)|" + _words(b"OR", b"REPLACE") + rb"(?:(TEMPORARY)|TABLE))" + WORD_END
)
_ALTER = _pattern(_QUEUE_OBJECT + _words(b"ONLINE", b"IGNORE") + rb"(TABLE))" + WORD_END)
_DROP = _pattern(_QUEUE_OBJECT + rb"(DATABASE|SCHEMA)|(TEMPORARY" + WORD_END + SPACE + rb")?(TABLES?))" + WORD_END)
_DROPPED = _pattern(SPACE + rb"(?:IF" + WORD_END + SPACE + rb"EXISTS" + WORD_END + SPACE + rb")?")
_DROPPED_NAME = _pattern(
    QUALIFIED + SPACE + rb"(?:(,)" + SPACE + rb"|(?=;|\Z|(?:RESTRICT|CASCADE|WAIT|NOWAIT)" + WORD_END + rb"))"
)
_REPLACED = _pattern(SPACE + _words(b"OR", b"REPLACE") + rb"TABLE" + WORD_END + SPACE + QUALIFIED)
_RENAME = _pattern(SPACE + rb"TABLES?" + WORD_END)
_TRUNCATE_QUEUE = _pattern(SPACE + rb"QUEUE" + WORD_END + SPACE + IDENTIFIER)
_TRUNCATE = _pattern(SPACE + _words(b"TABLE") + QUALIFIED)
_SHOW = _pattern(
    SPACE
    + b"(?:"
    + b"|".join(SPACE.join(view.words.partition("?")[0].encode().split()) for view in SHOW_VIEWS)
    + b")"
    + WORD_END
)
_SHOW_SYSTEM = _pattern(
    SPACE + _words(b"FULL", b"EXTENDED")
    + rb"(?:TABLES|COLUMNS|FIELDS|INDEX(?:ES)?|KEYS|TABLE" + GAP + rb"STATUS|CREATE" + GAP
    + rb"(?:TABLE|VIEW|DATABASE|SCHEMA))" + GAP + rb"[^;]{0,200}?\bqueuegate\b"
)  # fmt: skip
_ASKS_DATABASE = _pattern(MAYBE_GAP + rb"(?:DATABASE|SCHEMA)" + MAYBE_GAP + rb"\(")
_DELIVERY = _pattern(SPACE + rb"DELIVERY" + WORD_END + SPACE + rb"FOR" + WORD_END)
_ANALYZED_WRITE = _pattern(
    SPACE + rb"(?:FORMAT" + SPACE + rb"=" + SPACE + rb"\w+" + SPACE + rb")?(UPDATE|DELETE|INSERT|REPLACE)"
)
_SAVEPOINT = _pattern(SPACE + rb"SAVEPOINT" + WORD_END)
_AFTER_GROUP = _pattern(rb"\bAFTER" + GAP + rb"GROUP\b")
_DUE = _pattern(
    rb"\b(?:DELAY|AT)" + MAYBE_GAP + rb"(?:'[^']{0,64}'|\"[^\"]{0,64}\"|[\d.][\d.e+-]{0,31}|\?|NULL)"
    + SPACE + rb"(?>(?:;" + SPACE + rb")*)\Z"
)  # fmt: skip
_DUE_MAX = 1024
_READING = _pattern(rb"NAMES|CHARACTER|CHARSET|SQL_MODE|QUEUEGATE_LEASE|TRANSACTION_MODE|\bROLE\b")
_XA_END = _pattern(SPACE + rb"(?:COMMIT|ROLLBACK)" + WORD_END)
_IMMEDIATE = _pattern(SPACE + rb"IMMEDIATE" + WORD_END)
_LITERAL = _pattern(
    SPACE + rb"(?:IMMEDIATE|" + IDENTIFIER + SPACE + rb"FROM)" + SPACE
    + rb"(?:'[^'\\]*+'|\"[^\"\\]*+\")" + SPACE + rb"(?:;|\Z|USING" + WORD_END + rb")"
)  # fmt: skip
_UNSETTLING = _pattern(rb"USE|EXECUTE|CALL|TEMPORARY|STATEMENT|" + _READING.pattern)
_QUEUE_PROCEDURE = _pattern(SPACE + rb"(?:" + IDENTIFIER + SPACE + rb"\." + SPACE + rb")?`?queue_")

_PLAIN_SELECT = (b"SELECT ", b"select ")  # the most common beginning by far, known without a pattern
_QUEUE_VERBS = (b"ACK", b"NACK", b"REJECT", b"RENEW", b"REDRIVE", b"RETRY", b"STREAM", b"TRACE", b"KILL", b"RUN")
_TRANSACTION_VERBS = (b"BEGIN", b"START", b"COMMIT", b"ROLLBACK", b"XA", b"SET", b"EXECUTE")

Handler = Callable[[bytes, int, str | None], Classification]


def _ends_with_due(sql: bytes) -> bool:
    """Whether an INSERT may end with DELAY or AT, perhaps with comments behind it. Most end with a parenthesis."""
    end = sql[-_DUE_MAX:].rstrip(b"; \t\r\n")
    may = end[-1:] != b")" or b"--" in end or b"#" in end
    return may and _DUE.search(end) is not None


def _changing(queue: QueueName) -> Effects:
    return Effects(touched=frozenset((queue,)), uncertain=frozenset((queue,)))


class StatementScanner:
    """Classifies statements for one catalog."""

    def __init__(self, catalog: QueueCatalog) -> None:
        self._catalog = catalog
        self._names = QueueNames(catalog)
        self._all = Classification(
            StatementClass.TOUCHES, Effects(touched=self._names.all_queues, uncertain=self._names.all_queues)
        )
        self._inserts: dict[QueueName, Classification] = {}  # filled on first use: there may be thousands of queues
        self._targets: dict[tuple[bytes, bytes | None, str | None], QueueName | None] = {}  # by names as written
        self._id_digits: dict[QueueName, int] = {}  # of the highest explicit id; 0: any is allowed; -1: none is
        self._handlers: dict[bytes, Handler] = {
            b"SELECT": _select,
            b"WITH": self._with,
            b"TABLE": _select,
            b"INSERT": self._insert,
            b"REPLACE": self._replace,
            b"LOAD": self._load,
            b"UPDATE": self._update,
            b"DELETE": self._delete,
            b"CREATE": self._create,
            b"ALTER": self._alter,
            b"DROP": self._drop,
            b"RENAME": lambda sql, end, database: self._table_change(sql) if _RENAME.match(sql, end) else _NOTHING,
            b"TRUNCATE": self._truncate,
            b"SHOW": _show,
            b"EXPLAIN": _explain,
            b"DESCRIBE": _explain,
            b"DESC": _explain,
            b"ANALYZE": self._analyze,
            b"CALL": lambda sql, end, database: _PLAN if _QUEUE_PROCEDURE.match(sql, end) else _USE,
            b"RELEASE": lambda sql, end, database: _NOTHING if _SAVEPOINT.match(sql, end) else _PLAN,
            b"USE": lambda sql, end, database: _USE,
            b"SET": self._set,
            b"XA": self._xa,
            b"PREPARE": _dynamic,
            b"EXECUTE": lambda sql, end, db: _dynamic(sql, end, db) if _IMMEDIATE.match(sql, end) else _USE,
            **dict.fromkeys(_QUEUE_VERBS, lambda sql, end, database: _PLAN),
        }
        # Comments are not skipped here but count as a hit: many unclosed ones would cost a scan each.
        verbs = b"|".join((*self._handlers, *_TRANSACTION_VERBS))
        self._next_statement = _pattern(
            rb";\s*+(?:" + verbs + rb"|IF|CASE|LOOP|WHILE|REPEAT|FOR|\(|#|--|/\*|[\x80-\xff])"
        )

    def _plain_insert(self, queue: QueueName) -> Classification:
        """A plain INSERT into the queue. Columns that one into Vitess's first layout leaves out have to be filled
        in."""
        classification = self._inserts.get(queue)
        if classification is None:
            spec = self._catalog.get(queue)  # None: a topic
            legacy = spec is not None and spec.layout is Layout.LEGACY
            fed = spec is not None and spec.options.topic is not None  # only the proxy may insert there
            effects = Effects(touched=frozenset((queue,)), tally=(queue, "enqueued"))
            classification = self._inserts[queue] = Classification(
                StatementClass.PLAN if legacy or fed else StatementClass.TOUCHES, effects
            )
        return classification

    def classify(
        self, sql: bytes, database: str | None, *, backslash_escapes: bool = True, several: bool = True
    ) -> Classification:
        """How the text, one or several statements, concerns queues. `several`: one that may hide others is USE."""
        if b";" in sql and several and (sql.count(b";") > _SEMICOLONS_MAX or self._next_statement.search(sql)):
            statements = split_statements(sql, backslash_escapes=backslash_escapes)
            if len(statements) > 1:
                marked = has_executable(sql, backslash_escapes=backslash_escapes)  # then each is sent as it is cut here
                return _PLAN if marked else self._classify_each(statements, database, backslash_escapes)
            alone = self.classify(sql, database, backslash_escapes=backslash_escapes, several=False)
            hides = b"\\" in sql or is_unread(sql, backslash_escapes=backslash_escapes)
            return replace(alone, kind=StatementClass.USE) if hides and alone.kind is not StatementClass.PLAN else alone
        if sql[:7] in _PLAIN_SELECT:
            return _select(sql, 7, database)
        verb, end = leading_verb(sql)
        handler = self._handlers.get(verb, _other)
        try:
            classification = handler(sql, end, database)
        except Undecidable:
            return _PLAN
        if not has_executable(sql, backslash_escapes=backslash_escapes):
            return classification
        unread = is_unread(sql, backslash_escapes=backslash_escapes)
        return replace(unsure(classification), kind=StatementClass.USE) if unread else unsure(classification)

    def _classify_each(self, statements: list[bytes], database: str | None, escapes: bool) -> Classification:
        """Several statements: as one only if none needs the planner and no transaction ends among their effects."""
        effects: list[Effects] = []
        ends = False
        for statement in statements:
            classification = self.classify(statement, database, backslash_escapes=escapes)
            if classification.kind in (StatementClass.PLAN, StatementClass.USE):
                return _PLAN
            ends = ends or verb_of(statement, backslash_escapes=escapes) is not None
            if classification.kind is StatementClass.TOUCHES:
                effects.append(classification.effects)
        if not effects:
            return _NOTHING
        return _PLAN if ends else Classification(StatementClass.TOUCHES, merged(effects))

    # --- reading

    def _with(self, sql: bytes, end: int, database: str | None) -> Classification:
        lowered = sql[end : end + _SEARCH_MAX].lower()
        if b"update" in lowered or b"delete" in lowered:
            changes = self._anywhere(sql)
            if changes is not _NOTHING:
                return changes
        return _select(sql, end, database)

    def _analyze(self, sql: bytes, end: int, database: str | None) -> Classification:
        """MariaDB's ANALYZE UPDATE ... carries it out."""
        return self._anywhere(sql) if _ANALYZED_WRITE.match(sql, end) else _select(sql, end, database)

    # --- writing

    def _target(self, match: re.Match[bytes] | None, database: str | None) -> QueueName | None:
        if match is None:
            return None
        key = (match[1], match[2], database)
        target = self._targets.get(key, _UNSEEN)
        if target is not _UNSEEN:
            return target
        queue = self._names.queue(*key)
        if len(match[0]) <= _NAME_MAX:
            if len(self._targets) >= _TARGETS_MAX:
                self._targets.clear()  # also while another thread reads it
            self._targets[key] = queue
        return queue

    def _insert(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _INSERT.match(sql, end)
        queue = self._target(match, database)
        if match is None or queue is None:
            return _NOTHING
        lowered = sql[-_SEARCH_MAX:].lower()
        if (b"after" in lowered and _AFTER_GROUP.search(lowered)) or _ends_with_due(sql):
            return Classification(StatementClass.PLAN, self._plain_insert(queue).effects)
        classification = (
            Classification(self._plain_insert(queue).kind, _changing(queue))
            if b"duplicate" in lowered
            else self._plain_insert(queue)
        )
        if queue in self._names.topics:
            history = self._catalog.topics[queue].options.trace_keep_ns is not None
            return _into_topic(sql, match, classification, history=history)
        if len(sql) > _SHORT and b"duplicate" not in lowered and not values_of_own_columns(sql, match.end()):
            return classification
        if self._may_end_ids(sql, queue, match.end()):
            return replace(classification, kind=StatementClass.PLAN)
        whole = len(sql) <= _SEARCH_MAX
        if (b"time_" in lowered or not whole) and may_show_defaults(sql[match.end() : match.end() + _FORM_MAX]):
            return replace(classification, kind=StatementClass.PLAN)
        if (b"state" in lowered or not whole) and names_column(sql, match.end(), b"state"):
            return replace(classification, kind=StatementClass.PLAN)
        return classification

    def _replace(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _INSERT.match(sql, end)
        queue = self._target(match, database)
        if match is None or queue is None:
            return _NOTHING
        if queue in self._names.topics and sets_id(sql, match.end()):
            return Classification(StatementClass.PLAN, _changing(queue))
        lowered = sql[-_SEARCH_MAX:].lower()
        clause = (b"after" in lowered and _AFTER_GROUP.search(lowered)) or _ends_with_due(sql)
        planned = clause or self._may_end_ids(sql, queue, match.end())
        return Classification(StatementClass.PLAN if planned else self._plain_insert(queue).kind, _changing(queue))

    def _may_end_ids(self, sql: bytes, queue: QueueName, place: int) -> bool:
        """Whether an INSERT may give an id so large that it leaves the database no next one; over shards, any id."""
        digits = self._id_digits.get(queue)
        if digits is None:
            spec = self._catalog.get(queue)
            highest = None if spec is None else highest_explicit_id(spec)
            none = -1 if spec is not None and gives_ids_over_shards(spec) else 0
            digits = self._id_digits[queue] = none if highest is None else len(str(highest))
        large = digits > 0 and _LARGE[digits].search(sql, 0, _SEARCH_MAX) is not None
        return values_of_own_columns(sql, place) if digits < 0 else large

    def _load(self, sql: bytes, end: int, database: str | None) -> Classification:
        queue = self._target(_LOAD_TARGET.search(sql, end, end + _SEARCH_MAX), database)
        if queue is None or b"replace" in sql[: end + _SEARCH_MAX].lower():
            return _NOTHING if queue is None else Classification(StatementClass.TOUCHES, _changing(queue))
        return Classification(StatementClass.TOUCHES, replace(_changing(queue), tally=(queue, "enqueued")))

    def _update(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _UPDATE.match(sql, end)
        if match is None:
            return self._anywhere(sql)
        queue = self._target(match, database)
        if queue is None:
            return _NOTHING
        lowered = sql.lower()
        words = (NUMBERS,) if queue in self._names.topics else (b"state", b"time_acked")
        needs_plan = any(word in lowered for word in words)
        return Classification(StatementClass.PLAN if needs_plan else StatementClass.TOUCHES, _changing(queue))

    def _delete(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _DELETE.match(sql, end)
        if match is None:
            return self._anywhere(sql)
        queue = self._target(match, database)
        if queue is None:
            return _NOTHING
        spec = self._catalog.get(queue)
        if spec is None:
            return _NOTHING  # of a topic: messages that its groups have not read are lost, which the groups detect
        certain = match["where"] and not _NOT_EACH_ROW.search(sql, match.start(), match.start(1))
        ids = settled_ids(sql[match.end() :], key_kind(spec)) if certain else None
        # Where messages form groups, one that ends may be the last of its own.
        kind = StatementClass.TOUCHES if spec.options.group_key is None else StatementClass.PLAN
        return Classification(kind, replace(ending(queue, ids), tally=(queue, "deleted")))

    def _anywhere(self, sql: bytes) -> Classification:
        """A write to several tables: any queue that is named may be changed."""
        queues = self._names.mentioned(sql) & self._names.all_queues
        return Classification(StatementClass.TOUCHES, Effects(touched=queues, uncertain=queues)) if queues else _NOTHING

    def names_queue(self, sql: bytes) -> bool:
        """Whether the name of a queue, or of a table that would be one, occurs anywhere in a text."""
        return bool(self._names.mentioned(sql))

    # --- definitions

    def _create(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _CREATE.match(sql, end)
        if match is None:
            return _NOTHING if sql.isascii() or b"temporary" not in sql.lower() else _USE
        if match[1] or match[3]:  # a temporary table may get a queue's name, and is in its place for this session
            return _PLAN if match[1] else _USE
        if (replaced := self._target(_REPLACED.match(sql, end), database)) is not None:
            return _removal(frozenset((replaced,)))
        return _CATALOG if match[2] else self._table_change(sql)

    def _alter(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _ALTER.match(sql, end)
        if match is None:
            return _NOTHING
        return _PLAN if match[1] else self._table_change(sql)

    def _drop(self, sql: bytes, end: int, database: str | None) -> Classification:
        match = _DROP.match(sql, end)
        if match is None:
            return _NOTHING
        if match[1]:
            return _PLAN
        if match[2] or match[3]:
            return _CATALOG if match[2] else self._table_change(sql)
        dropped = self._dropped(sql, match.end(), database)
        return _removal(dropped) if dropped else self._table_change(sql)

    def _dropped(self, sql: bytes, place: int, database: str | None) -> frozenset[QueueName]:
        """The queues that DROP TABLE names. Where its names are unclear, all that are mentioned anywhere."""
        if not self._names.mentioned(sql):
            return frozenset()
        queues: set[QueueName] = set()
        beginning = _DROPPED.match(sql, place)
        name = None if beginning is None else _DROPPED_NAME.match(sql, beginning.end())
        while name is not None:
            queue = self._target(name, database)
            queues |= set() if queue is None else {queue}
            if name[3] is None:
                return frozenset(queues)
            name = _DROPPED_NAME.match(sql, name.end())
        return self._names.mentioned(sql) & self._names.all_queues

    def _truncate(self, sql: bytes, end: int, database: str | None) -> Classification:
        if _TRUNCATE_QUEUE.match(sql, end):
            return _PLAN
        queue = self._target(_TRUNCATE.match(sql, end), database)
        return _NOTHING if queue is None else _removal(frozenset((queue,)))

    def _table_change(self, sql: bytes) -> Classification:
        """DDL on tables is relevant if it names a queue, or may create one."""
        lowered = sql.lower()
        marked = b"vitess_message" in lowered or b"queuegate_topic" in lowered
        return _CATALOG if marked or self._names.mentioned(sql) else _NOTHING

    # --- the rest

    def _set(self, sql: bytes, end: int, database: str | None) -> Classification:
        """Character sets and modes change how the statements to come are to be read, a role what they may do. MariaDB's
        SET STATEMENT ... FOR is the statement after it, and its settings end with that."""
        if (settings := SET_STATEMENT.match(sql, end)) is not None:
            statement = sql[settings.end() :]
            return _USE if leading_verb(statement)[0] == b"SET" else self.classify(statement, database)
        behind = OF_STATEMENT.match(sql, end) or _READING.search(sql, end, end + _SEARCH_MAX)
        return _USE if behind else _NOTHING

    def _xa(self, sql: bytes, end: int, database: str | None) -> Classification:
        """What was prepared may have been so by another session, through another proxy, or before a restart."""
        return self._all if _XA_END.match(sql, end) and self._names.all_queues else _NOTHING


def unsure(classification: Classification) -> Classification:
    """The same with messages that are not known: a server may skip what is in a comment /*!, and a text may go on."""
    effects = classification.effects
    if effects.catalog:
        return classification
    return replace(classification, effects=replace(merged([effects]), removes=effects.removes, several=False))


def _other(sql: bytes, end: int, database: str | None) -> Classification:
    return _USE if is_compound(sql) else _NOTHING


def _select(sql: bytes, end: int, database: str | None) -> Classification:
    lowered = sql.lower()
    if b"@@" in lowered and reads_socket(lowered):
        return _PLAN
    if b"stream" in lowered and _FROM_STREAM.search(sql, end):
        return _PLAN
    if b"queue" in lowered and (_QUEUE_FUNCTION.search(sql, end) or _SYSTEM_TABLE.search(sql, end)):
        return _PLAN
    if database == SYSTEM_DATABASE and (_SYSTEM_NAME.search(sql, end) or _ASKS_DATABASE.match(sql, end)):
        return _PLAN
    if (_NAME in lowered or database == SYSTEM_DATABASE) and _INFORMATION.search(sql, end):
        return _PLAN
    return _NOTHING


def _show(sql: bytes, end: int, database: str | None) -> Classification:
    if database == SYSTEM_DATABASE or _SHOW.match(sql, end) or _SHOW_SYSTEM.match(sql, end):
        return _PLAN
    return _NOTHING


def _explain(sql: bytes, end: int, database: str | None) -> Classification:
    return _PLAN if _DELIVERY.match(sql, end) else _select(sql, end, database)


def _dynamic(sql: bytes, end: int, database: str | None) -> Classification:
    """A statement as a string, or as an expression that results in one: MariaDB runs USE from it, and SET."""
    return _NOTHING if _LITERAL.match(sql, end) and not _UNSETTLING.search(sql, end) else _USE


def _into_topic(sql: bytes, match: re.Match[bytes], classification: Classification, *, history: bool) -> Classification:
    """An INSERT into a topic. For one whose `history` is stored: whether it adds rows and does nothing else."""
    if sets_id(sql, match.end()):
        return replace(classification, kind=StatementClass.PLAN)
    if classification.effects.tally is None or not history:
        return classification
    plain = _ROWS.match(sql, match.end()) and not _NOT_EACH_ROW.search(sql, match.start(), match.start(1))
    if not plain or b"returning" in sql[-_SEARCH_MAX:].lower():
        return classification
    return replace(classification, effects=replace(classification.effects, numbered=True))


def _removal(queues: frozenset[QueueName]) -> Classification:
    """An ordinary statement that takes all messages of these queues along: the planner's, for it has to be allowed."""
    return Classification(StatementClass.PLAN, Effects(uncertain=queues, removes=queues, catalog=True))


def merged(effects: list[Effects]) -> Effects:
    """What several statements may do together: a server may cut their text elsewhere, so nothing is certain."""
    queues = frozenset[QueueName]().union(
        *(e.touched | e.uncertain | {queue for queue, _ in e.settled} for e in effects)
    )
    return Effects(touched=queues, uncertain=queues, catalog=any(bool(e.catalog) for e in effects), several=True)
