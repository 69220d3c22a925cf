"""SHOW QUEUES and streams in the process list: values in, rows out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_store import make_spec

from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueStatus
from mysql_wire.outcome import Collected
from proxy.cluster.registry import ProcessInfo
from proxy.show.columns import Row, like_pattern, number_column, text_column
from proxy.show.process_list import PROCESSES_COLUMNS, processes_with_streams
from proxy.show.status_tables import QUEUES, queue_summaries, shown

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
    assert like_pattern(pattern)(text) is matches


def queue_rows(*args: Any, **options: Any) -> list[Row]:
    return shown(queue_summaries(*args, **options))


def test_queue_rows_tell_counters_and_refused_tables() -> None:
    catalog = QueueCatalog(rejected={QueueName("shop", "broken"): "time_acked missing"})
    rows = queue_rows([ORDERS], catalog, "shop", None)
    assert rows == [
        (b"broken", b"shop", None, None, None, None, None, None, None, b"time_acked missing"),
        (b"orders", b"shop", b"2", b"7", b"5", b"11", b"1", b"3", b"0", None),
    ]
    assert all(len(row) == len(QUEUES) for row in rows)


def test_queue_rows_tell_what_is_wrong_with_a_queue_that_is_served() -> None:
    waits = {QueueName("shop", "orders"): "its dead letters wait"}
    queue = make_spec(QueueName("shop", "orders"))
    told: list[bytes | None] = []
    for one in (queue, replace(queue, options=QueueOptions(paused=True))):
        (row,) = queue_rows([ORDERS], QueueCatalog(1, {one.name: one}), None, None, problems=waits)
        told.append(row[-1])
    assert told[0] == b"its dead letters wait"
    assert (told[1] or b"").startswith(b"paused: ") and (told[1] or b"").endswith(b"; its dead letters wait")


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
    listed = Collected(columns, (idle, (b"8", *idle[1:]), (b"9", *idle[1:])))
    ours = [
        ProcessInfo(7, "app", "10.0.0.9:555", None, "Query", 4, "Streaming messages of a.q", "SELECT", True),
        ProcessInfo(9, "app", "10.0.0.9:666", None, "Query", 4, "", "UPDATE", False),
    ]
    rows = processes_with_streams(listed, ours)
    assert rows[2] == (b"9", b"app", b"10.0.0.9:666", *idle[3:]), "the rest is the server's to know"
    assert rows[0] == (b"7", b"app", b"10.0.0.9:555", None, b"Query", b"4", b"Streaming messages of a.q", b"SELECT")
    assert rows[1] == (b"8", *idle[1:])


def test_a_stream_that_the_database_does_not_list_any_more_is_added() -> None:
    columns = (number_column("Id"), *(text_column(n) for n in ("User", "Host", "db", "Command", "Time", "State")))
    idle = (b"8", b"app", b"proxy:1", None, b"Sleep", b"3", b"")
    gone = ProcessInfo(7, "app", "10.0.0.9:555", "shop", "Query", 4, "Streaming messages of a.q", "SELECT", True, True)
    rows = processes_with_streams(Collected(columns, (idle,)), [gone])
    assert rows == [idle, (b"7", b"app", b"10.0.0.9:555", b"shop", b"Query", b"4", b"Streaming messages of a.q")]


def test_a_connection_that_has_the_id_of_a_lost_one_is_shown_as_it_is() -> None:
    """A server counts anew after a restart."""
    columns = (number_column("Id"), *(text_column(n) for n in ("User", "Host", "db", "Command", "Time", "State")))
    line = (b"7", b"bob", b"proxy:1", None, b"Sleep", b"3", b"")
    gone = ProcessInfo(7, "ann", "10.0.0.9:555", "shop", "Query", 4, "Streaming messages of a.q", "SELECT", True, True)
    mine = ProcessInfo(7, "bob", "10.0.0.8:444", None, "Sleep", 3, "", None, False)
    rows = processes_with_streams(Collected(columns, (line,)), [gone, mine])
    assert rows[0] == (*line[:2], b"10.0.0.8:444", *line[3:])
    assert rows[1:] == [(b"7", b"ann", b"10.0.0.9:555", b"shop", b"Query", b"4", b"Streaming messages of a.q")]


def test_lines_of_our_own_account_bear_their_clients_names() -> None:
    columns = (
        number_column("Id"),
        *(text_column(n) for n in ("User", "Host", "db", "Command", "Time", "State", "Info", "Progress")),
    )
    line = (b"7", b"gate", b"proxy:1", b"shop", b"Query", b"3", b"Sending data", b"SELECT 1", b"0")
    listed = Collected(columns, (line, (b"8", *line[1:])))
    ours = [
        ProcessInfo(1 << 30, "app", "10.0.0.9:5", "shop", "Sleep", 4, "", None, False, proxied=True, backend_id=7),
        ProcessInfo((1 << 30) + 1, "worker", "10.0.0.8:6", None, "Sleep", 9, "", None, False, proxied=True),
    ]
    assert processes_with_streams(listed, ours) == [
        (b"1073741824", b"app", b"10.0.0.9:5", *line[3:]),
        (b"8", *line[1:]),
        (b"1073741825", b"worker", b"10.0.0.8:6", None, b"Sleep", b"9", b"", None, None),
    ]


def test_a_list_of_our_own_for_those_who_may_see_no_other() -> None:
    ours = [ProcessInfo(5, "app", "10.0.0.9:5", "main", "Query", 0, "", "SHOW PROCESSLIST", False)]
    rows = processes_with_streams(Collected(PROCESSES_COLUMNS, ()), ours, alone=True)
    assert rows == [(b"5", b"app", b"10.0.0.9:5", b"main", b"Query", b"0", b"", b"SHOW PROCESSLIST")]


def test_queue_rows_of_what_one_may_see() -> None:
    catalog = QueueCatalog(rejected={QueueName("shop", "broken"): "time_acked missing"})
    assert queue_rows([ORDERS], catalog, None, None, lambda name: False) == []
    assert [row[0] for row in queue_rows([ORDERS], catalog, None, None, lambda name: name.table == "orders")] == [
        b"orders"
    ]
