"""SHOW CREATE QUEUE from the texts that databases print. What MariaDB prints is tested with a server, beside."""

from __future__ import annotations

from dataclasses import replace

from rewriter_catalog import spec

from engine.model.options import QueueOptions
from rewriter.plan import Execute, PlanContext
from rewriter.planner import Planner
from rewriter.plans.queue_table import show_create_queue

MYSQL_8 = """CREATE TABLE `orders` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `priority` tinyint NOT NULL DEFAULT '50',
  `time_scheduled` bigint NOT NULL DEFAULT ((timestampdiff(MICROSECOND,_utf8mb4'1970-01-01',utc_timestamp(6)) * 1000)),
  `time_next` bigint DEFAULT (`time_scheduled`),
  `epoch` bigint NOT NULL DEFAULT '0',
  `time_created` bigint NOT NULL DEFAULT ((timestampdiff(MICROSECOND,_utf8mb4'1970-01-01',utc_timestamp(6)) * 1000)),
  `time_acked` bigint DEFAULT NULL,
  `state` varchar(11) COLLATE utf8mb4_bin GENERATED ALWAYS AS ((case when (`time_acked` is not null) then \
_utf8mb4'acked' when (`epoch` > 0) then _utf8mb4'fired' else _utf8mb4'to_be_fired' end)) VIRTUAL,
  `payload` varchar(256) DEFAULT 'a, (b' COMMENT 'it''s',
  `note` text /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  KEY `by_payload` (`payload`(10)) /*!80000 INVISIBLE */,
  KEY `queuegate_due` (`time_acked`,`priority`,`time_next`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='vitess_message'"""

VITESS = """CREATE TABLE `m` (
  `id` bigint NOT NULL,
  `priority` tinyint NOT NULL DEFAULT '50',
  `epoch` bigint NOT NULL DEFAULT '0',
  `time_next` bigint DEFAULT '0',
  `time_acked` bigint DEFAULT NULL,
  `message` json DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `next_idx` (`time_acked`,`priority`,`time_next` DESC)
) ENGINE=InnoDB COMMENT='vitess_message'"""


OF_DEFAULTS = (
    " WITH (ack_wait = '30s', min_backoff = 'ack_wait', max_backoff = '3600s', purge_after = '86400s',"
    " batch_size = 100, prefetch = 1000, cache_size = 10000, poll_interval = '30s', max_attempts = 0,"
    " keep_attempts = 10)"
)


def test_mysql_8() -> None:
    assert show_create_queue(MYSQL_8, spec("shop", "orders")) == (
        "CREATE QUEUE `orders` (\n"
        "  `payload` varchar(256) DEFAULT 'a, (b' COMMENT 'it''s',\n"
        "  `note` text INVISIBLE,\n"
        "  KEY `by_payload` (`payload`(10)) INVISIBLE\n"
        ")" + OF_DEFAULTS
    )


def test_options_that_differ_from_the_defaults() -> None:
    options = QueueOptions(ack_wait_ns=1_500_000_000, batch_size=5, message_cols=("id", "payload"))
    shown = show_create_queue(MYSQL_8, replace(spec("shop", "orders"), options=options))
    assert ") WITH (ack_wait = '1.5s', " in shown
    assert "batch_size = 5, " in shown
    assert shown.endswith(", message_cols = 'id|payload', max_attempts = 0, keep_attempts = 10)")


def test_a_queue_without_columns_of_its_own() -> None:
    head, _, rest = MYSQL_8.partition("  `payload`")
    only_ours = head + rest[rest.index("  PRIMARY") :].replace(
        "  KEY `by_payload` (`payload`(10)) /*!80000 INVISIBLE */,\n", ""
    )
    assert show_create_queue(only_ours, spec("shop", "a`b")) == "CREATE QUEUE `a``b` ()" + OF_DEFAULTS


def test_what_the_user_declared_otherwise_stays() -> None:
    """A table that was made for Vitess: its id and time_next are not as CREATE QUEUE makes them."""
    assert show_create_queue(VITESS, spec("shop", "m")) == (
        "CREATE QUEUE `m` (\n"
        "  `id` bigint NOT NULL,\n"
        "  `time_next` bigint DEFAULT '0',\n"
        "  `message` json DEFAULT NULL,\n"
        "  PRIMARY KEY (`id`),\n"
        "  KEY `next_idx` (`time_acked`,`priority`,`time_next` DESC)\n"
        ")" + OF_DEFAULTS
    )


def test_our_own_text_is_understood(planner: Planner) -> None:
    """A backend that keeps the statement as written shows it so."""
    plan = planner.plan("CREATE QUEUE n (payload TEXT, code CHAR(3) UNIQUE)", PlanContext("shop"))
    assert isinstance(plan, Execute)
    assert (
        show_create_queue(plan.sql, spec("shop", "n"))
        == "CREATE QUEUE `n` (\n  payload TEXT,\n  code CHAR(3) UNIQUE\n)" + OF_DEFAULTS
    )
