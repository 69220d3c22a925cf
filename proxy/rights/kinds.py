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
    conditions use, all that a lookup uses, and those of an INSERT that are not in ASCII, in lower case; they must be
    the table's, for the reader cannot know.
    `reveals`: of a SETTLE, those of them whose values it reveals, by the rows that match or by what it sets, and that
    are not the queue's own."""

    act: Act
    name: Name
    columns: frozenset[str] = frozenset()
    reveals: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment of a SET, names in lower case. `value` None is NULL; DEFAULT is `default`.

    `names` and `character set` are variables here, `collation` is that of a COLLATE after NAMES.
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


class SensitiveOutput(Enum):
    """The output of a SHOW that contains more than an account limited to its queues may know."""

    VARIABLES = "variables"
    WARNINGS = "warnings"


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A SELECT of constants, variables and harmless functions, or a SHOW that drivers send.

    `variables` are those it reads; `connection_id` whether it reads CONNECTION_ID(), `account` for USER() or its like.
    """

    variables: frozenset[str] = frozenset()
    connection_id: bool = False
    account: bool = False
    sensitive_output: SensitiveOutput | None = None


class Step(Enum):
    """A step of a transaction. NEXT: SET TRANSACTION, which holds for the next one."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class TransactionStep:
    """`plain`: only the verb, so that it has no effect where no transaction is open."""

    step: Step
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    database: str


LimitedStatement = QueueStatement | SessionSettings | SessionQuery | TransactionStep | Use
