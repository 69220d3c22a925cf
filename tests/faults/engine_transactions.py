"""The engine's transactions of more than one packet, as the fault tests have them begin and know that they are done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from servers import Sql
from slowness import scaled

Q = "ack_wait = '6s', min_backoff = '10ms', max_backoff = '10ms', poll_interval = '1s'"
KEPT = "ack_wait = '1h'"  # for the heirs: what they have is with them to the end
REJECTED = "9223372036854775806"


@dataclass(frozen=True)
class Case:
    """A transaction of the engine. `caught`: what its first locking statement says. `made` before all; `then` makes it
    begin, said through the other proxy, `around` to the database itself.

    `source`: what receivers of both ask for; of `want` none may be missing or come twice at the other's. `done`: what
    holds in the database in the end. `hangs_up`: a receiver of the silent one, which has them all, does.
    """

    name: str
    caught: tuple[bytes, ...]
    made: tuple[str, ...]
    then: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    without: bytes = b""
    source: str = ""
    silent_receives: bool = True
    hangs_up: bool = False
    want: frozenset[int] = frozenset((1, 2, 3))
    done: Callable[[Sql], bool] = lambda sql: True
    commits: bool = True

    def stream(self, options: str) -> str:
        """What a receiver says."""
        table, _, group = self.source.partition(".")
        words = ", ".join(filter(None, (f"group = '{group}'" if group else "", options)))
        return f"SELECT n FROM STREAM {table}" + (f" WITH ({words})" if words else "")


def _value(text: str) -> bytes:
    """How a text is bound in the engine's statements."""
    return text.encode().hex().encode()


def _inserts(table: str) -> tuple[str, ...]:
    return (f"INSERT INTO {table} (n) VALUES (1), (2), (3)",)


def _limited(name: str, option: str) -> Case:
    q = f"{name}_q"
    made = (f"CREATE QUEUE {q} (n INT) WITH ({option}, {Q})",)
    return Case(name, (b"queuegate_limits", _value(q), b"FOR UPDATE"), made, _inserts(q), source=q)


def _fed(name: str, topic: str, group: str, caught: bytes) -> Case:
    t = f"{name}_t"
    made = (
        f"CREATE TOPIC {t} (n INT) {topic}",
        f"CREATE GROUP g ON {t} START AT EARLIEST WITH ({', '.join(filter(None, (group, Q)))})",
    )
    return Case(name, (b"queuegate_positions", caught, b"FOR UPDATE"), made, _inserts(t), source=f"{t}.g")


def _count(sql: Sql, text: str, want: int) -> bool:
    return bool(sql.value(text) == want)


DELIVERIES = (
    Case(
        "claim",
        (b"`claim_q`", b"SKIP LOCKED"),
        (f"CREATE QUEUE claim_q (n INT) WITH ({Q})",),
        _inserts("claim_q"),
        without=b"time_acked <",
        source="claim_q",
    ),
    _limited("order_key", "order_key = 'n'"),
    _limited("max_rate", "max_rate = 1000"),
    _limited("max_concurrency", "max_concurrency = 9"),
    _fed("take", "", "", _value("take_t_group_g")),
    _fed("feed", "", "order_key = 'n'", _value("feed_t_group_g")),
    _fed("filter", "", "filter = 'n > 0'", _value("filter_t_group_g")),
    _fed("sequence", "WITH (sequence = 'on')", "", _value("sequence_t")),
    Case(
        "give back",
        (b"`back_q`", b"SKIP LOCKED"),
        (f"CREATE QUEUE back_q (n INT) WITH (keep_attempts = 3, {Q})", *_inserts("back_q")),
        without=b"time_acked <",
        source="back_q",
        silent_receives=False,
        hangs_up=True,
    ),
    Case(
        "history",
        (b"queuegate_traces", b"INSERT"),
        ("CREATE TOPIC history_t (n INT) WITH (trace_keep = '1d')", f"CREATE GROUP g ON history_t WITH ({Q})"),
        _inserts("history_t"),
        source="history_t.g",
    ),
    Case(
        "seek",
        (b"queuegate_positions", _value("seek_t_group_g"), b"FOR UPDATE"),
        ("CREATE TOPIC seek_t (n INT)", f"CREATE GROUP g ON seek_t START AT LATEST WITH ({Q})"),
        _inserts("seek_t"),
        source="seek_t.g",
        silent_receives=False,  # but has it sought
    ),
)

PROXIES = Case(
    "proxies",
    (b"`queuegate_proxies`", b"time_seen"),
    (),
    done=lambda sql: (
        sql.value("SELECT MAX(time_seen) FROM queuegate_proxies WHERE number = 2") / 1e9 > time.time() - 11
    ),
)

DUTIES = (
    Case(
        "event group",
        (b"queuegate_groups", _value("parts_q"), b"SKIP LOCKED"),
        (
            f"CREATE QUEUE parts_q (k INT, KEY (time_acked, k)) WITH (group_key = 'k', {Q})",
            f"CREATE QUEUE follow_q (n INT) WITH ({Q})",
            "INSERT INTO parts_q (k) VALUES (7)",
            "INSERT INTO follow_q (n) VALUES (1) AFTER GROUP 7 OF parts_q",
            "INSERT INTO follow_q (n) VALUES (2) AFTER GROUP 7 OF parts_q",
        ),
        around=("UPDATE parts_q SET time_acked = 1, time_next = NULL",),
        source="follow_q",
        silent_receives=False,
        want=frozenset((1, 2)),
    ),
    Case(
        "tick",
        (b"SET next_tick", b"queuegate_schedules"),
        (f"CREATE QUEUE tick_q (n INT) WITH ({Q})", "CREATE SCHEDULE s ON tick_q EVERY '1s' (n) VALUES (1)"),
        done=lambda sql: (
            not sql.rows("SELECT time_scheduled FROM tick_q GROUP BY time_scheduled HAVING COUNT(*) > 1")
            # Every second has its own: late ones are made up for.
            and sql.value("SELECT (MAX(time_scheduled) - MIN(time_scheduled)) / 1e9 + 1 - COUNT(*) FROM tick_q") == 0
            and sql.value(f"SELECT MAX(time_scheduled) / 1e9 > UNIX_TIMESTAMP() - {scaled(3)} FROM tick_q") == 1
        ),
    ),
    Case(
        "purge",
        (b"`purge_q`", b"ORDER BY time_acked", b"SKIP LOCKED"),
        (f"CREATE QUEUE purge_q (n INT) WITH (purge_after = 0, {Q})", *_inserts("purge_q")),
        around=("UPDATE purge_q SET time_acked = 1, time_next = NULL",),
        done=lambda sql: _count(sql, "SELECT COUNT(*) FROM purge_q", 0),
    ),
    Case(
        "retention",
        (b"queuegate_positions", _value("keep_t_group_g"), b"FOR UPDATE"),
        (
            "CREATE TOPIC keep_t (n INT) WITH (retain_rows = 1)",
            f"CREATE GROUP g ON keep_t START AT EARLIEST WITH ({Q})",
        ),
        around=_inserts("keep_t"),
        done=lambda sql: (
            _count(sql, "SELECT COUNT(*) FROM keep_t", 1)
            and _count(sql, "SELECT lost FROM queuegate_positions WHERE group_table = 'keep_t_group_g'", 2)
        ),
    ),
    Case(
        "dead letters",
        (b"`dead_q`", REJECTED.encode(), b"SKIP LOCKED"),
        (f"CREATE QUEUE dead_q (n INT) WITH ({Q})", "CREATE QUEUE dead_q_dead (n INT)", *_inserts("dead_q")),
        around=(f"UPDATE dead_q SET time_next = {REJECTED}",),
        done=lambda sql: (
            sql.column("SELECT n FROM dead_q_dead ORDER BY n") == [1, 2, 3]
            and _count(sql, "SELECT COUNT(*) FROM dead_q", 0)
        ),
    ),
    PROXIES,
)

# Topics are looked after one by one: of these two and "retention" only one can be under way.
COMPACTION = Case(
    "compaction",
    (b"`compact_t`", b"SKIP LOCKED"),
    ("CREATE TOPIC compact_t (k INT, n INT) WITH (compact = 'k', compact_after = 0)",),
    around=("INSERT INTO compact_t (k, n) VALUES (1, 1), (2, 2), (1, 3), (2, 4)",),
    done=lambda sql: sql.column("SELECT n FROM compact_t ORDER BY n") == [3, 4],
)

PARTITION = Case(
    "partition",
    (b"LOCK TABLES", b"`part_t`"),
    ("CREATE TOPIC part_t (n INT) WITH (retain_rows = 2, partition = '1d')", "INSERT INTO part_t (n) VALUES (0)"),
    around=("ALTER TABLE part_t AUTO_INCREMENT = 30000", *_inserts("part_t")),
    done=lambda sql: _count(sql, "SELECT COUNT(*) FROM part_t WHERE id < 30000", 0),
    commits=False,  # the lock of a table is none of a transaction
)
