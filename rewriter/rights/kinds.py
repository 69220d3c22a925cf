"""The kinds of statements whose whole effect is clear from their text alone. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rewriter.text.tokens import Name


class Act(Enum):
    """What a statement does to a queue; READ: what a SELECT does to a topic."""

    ENQUEUE = "enqueue"
    SETTLE = "settle"
    READ = "read"


@dataclass(frozen=True, slots=True)
class QueueStatement:
    """An INSERT of literal rows, an UPDATE or DELETE that settles, or a lookup. `columns`: the names that its
    conditions use, and all that a lookup uses, in lower case; they must be the table's, for the reader cannot know.
    `tells`: of a SETTLE, those of them whose values it tells of, by the rows that it finds or by what it sets, and that
    are not the queue's own."""

    act: Act
    name: Name
    columns: frozenset[str] = frozenset()
    tells: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of a SET, names in lower case. `value` None is NULL; DEFAULT is given as `default`.

    `names` and `character set` are variables here, `collation` is what a COLLATE after NAMES says.
    """

    variable: str
    value: str | None
    default: bool = False
    collation: str | None = None
    appended: bool = False
    """`value` is put after what the variable holds: CONCAT(@@sql_mode, value)."""
    computed: bool = False
    """By an expression of constants, variables and harmless functions; `value` is not known."""
    reads: frozenset[str] = frozenset()
    """The variables in that expression."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """A SET of session variables by constants. `transaction`: SET SESSION TRANSACTION ..., with no settings."""

    settings: tuple[Setting, ...] = ()
    transaction: bool = False


class Shown(Enum):
    """What a SHOW shows that tells more than an account limited to its queues may know."""

    VARIABLES = "variables"
    WARNINGS = "warnings"


@dataclass(frozen=True, slots=True)
class Question:
    """A SELECT of constants, variables and harmless functions, or a SHOW of what any driver asks for.

    `variables` are those it reads; `own_id` whether it asks for CONNECTION_ID(), `account` for USER() or its like.
    """

    variables: frozenset[str] = frozenset()
    own_id: bool = False
    account: bool = False
    shows: Shown | None = None


class Step(Enum):
    """A step of a transaction. NEXT: SET TRANSACTION, which holds for the next one."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class TransactionStep:
    """`plain`: nothing but the verb, so that it means nothing where no transaction is open."""

    step: Step
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    database: str


Limited = QueueStatement | SessionSettings | Question | TransactionStep | Use
