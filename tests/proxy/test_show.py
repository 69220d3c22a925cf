"""SHOW QUEUES and streams in the process list: values in, rows out."""

from __future__ import annotations

import pytest

from engine.model import QueueCatalog, QueueName, QueueStatus
from proxy.registry import ProcessInfo
from proxy.show import QUEUES_COLUMNS, like_pattern, number_column, processes_with_streams, queue_rows, text_column
from proxy.upstream import Collected

ORDERS = QueueStatus(QueueName("shop", "orders"), 2, 5, 7, {"sent": 11, "redelivered": 1, "purged": 3})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("%", "anything", True),
        ("ord%", "Orders", True),
        ("o_d", "old", True),
        ("o\\_d", "old", False),
        ("o\\_d", "o_d", True),
        ("a.c", "abc", False),
        ("", "x", False),
        ("x\\", "x\\", True),
    ],
)
def test_like(pattern: str, text: str, matches: bool) -> None:
    assert bool(like_pattern(pattern).fullmatch(text)) is matches


def test_queue_rows_tell_counters_and_refused_tables() -> None:
    catalog = QueueCatalog(rejected={QueueName("shop", "broken"): "time_acked missing"})
    rows = queue_rows([ORDERS], catalog, "shop", None)
    assert rows == [
        (b"broken", b"shop", None, None, None, None, None, None, b"time_acked missing"),
        (b"orders", b"shop", b"2", b"7", b"5", b"11", b"1", b"3", None),
    ]
    assert all(len(row) == len(QUEUES_COLUMNS) for row in rows)


def test_queue_rows_by_database_and_pattern() -> None:
    assert queue_rows([ORDERS], QueueCatalog(), "other", None) == []
    assert len(queue_rows([ORDERS], QueueCatalog(), None, "ORD%")) == 1
    assert queue_rows([ORDERS], QueueCatalog(), None, "x%") == []


def test_a_streaming_session_shows_its_stream_and_its_client() -> None:
    columns = (
        number_column("Id"),
        *(text_column(n) for n in ("User", "Host", "db", "Command", "Time", "State", "Info")),
    )
    idle = (b"7", b"app", b"proxy:1", None, b"Sleep", b"3", b"", None)
    listed = Collected(columns, (idle, (b"8", *idle[1:])))
    ours = [ProcessInfo(7, "app", "10.0.0.9:555", None, "Query", 4, "Streaming messages of a.q", "SELECT", True)]
    rows = processes_with_streams(listed, ours)
    assert rows[0] == (b"7", b"app", b"10.0.0.9:555", None, b"Query", b"4", b"Streaming messages of a.q", b"SELECT")
    assert rows[1] == (b"8", *idle[1:])


def test_a_stream_that_the_database_does_not_list_any_more_is_added() -> None:
    columns = (number_column("Id"), *(text_column(n) for n in ("User", "Host", "db", "Command", "Time", "State")))
    idle = (b"8", b"app", b"proxy:1", None, b"Sleep", b"3", b"")
    gone = ProcessInfo(7, "app", "10.0.0.9:555", "shop", "Query", 4, "Streaming messages of a.q", "SELECT", True, True)
    rows = processes_with_streams(Collected(columns, (idle,)), [gone])
    assert rows == [idle, (b"7", b"app", b"10.0.0.9:555", b"shop", b"Query", b"4", b"Streaming messages of a.q")]
