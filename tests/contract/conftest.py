"""The contract holds in a third place, too: before a server whose accounts are the proxy's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql.cursors import SSCursor
from servers import SERVER, Gate, MariaDb, Sql, hang_up, wait_until
from vitess_limits import LIMITS

_HERE = Path(__file__).parent
_PLACES = {
    "mariadb": ["embedded", "mariadb", "proxy_accounts", "mysql"],
    "mysql": ["mariadb", "proxy_accounts"],
    "mariadb-next": ["mariadb", "proxy_accounts"],
    "galera": ["mariadb"],
    "vitess": ["mariadb"],
}[SERVER]
_ANOTHER_NODE = "connections of another node are neither listed nor killed here"
_CLOCKS = "what two proxies record has the order of their clocks"
_NOT_THROUGH_TWO_NODES = {
    "test_a_killed_receivers_messages_go_to_another": _ANOTHER_NODE,
    "test_a_dead_receiver_is_noticed_with_nothing_to_send": _ANOTHER_NODE,
    "test_a_stream_is_in_the_process_list": _ANOTHER_NODE,
    "test_kill_ends_the_connection": _ANOTHER_NODE,
    "test_kill_of_a_receiver_that_does_not_read_hands_its_messages_over": _ANOTHER_NODE,
    "test_kill_query_ends_the_stream_and_keeps_the_connection": _ANOTHER_NODE,
    "test_wait_returns_as_soon_as_something_comes": _ANOTHER_NODE,
    "test_too_many_conditions": "each proxy counts its own streams",
    "test_a_message_that_somebody_holds_locked_comes_when_it_is_free": "locks are a node's own; the claim wins",
    "test_the_history_of_a_message": _CLOCKS,
    "test_how_else_a_delivery_ends": _CLOCKS,
    "test_records_are_a_table": _CLOCKS,
    "test_a_group_that_is_being_made_counts_what_it_loses": "DDL on a cluster ends what is in its way",
    "test_a_table_made_changed_and_dropped_around_the_proxy": "the first proxy knows the table when it is asked of it",
}


@pytest.hookimpl(tryfirst=True)  # before `-m` picks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not _left_out(item)]
    for item in items if SERVER == "mariadb" else ():
        if item.path.parent == _HERE and _place_of(item) in ("proxy_accounts", "mysql"):
            item.add_marker(pytest.mark.long)
    for item in items if SERVER == "vitess" else ():
        if reason := LIMITS.get(getattr(item, "originalname", "")):
            item.add_marker(pytest.mark.skip(reason=reason))
    for item in items if SERVER == "galera" else ():
        if reason := _NOT_THROUGH_TWO_NODES.get(getattr(item, "originalname", "")):
            item.add_marker(pytest.mark.skip(reason=reason))


def _place_of(item: pytest.Item) -> str | None:
    place: str | None = getattr(getattr(item, "callspec", None), "params", {}).get("place")
    return place


def _left_out(item: pytest.Item) -> bool:
    """By the markers of its module: `make test-mysql` has all of what is left out here."""
    place = _place_of(item)
    if place == "proxy_accounts" and SERVER == "mariadb":
        return item.get_closest_marker("no_proxy_accounts") is not None
    return place == "mysql" and item.get_closest_marker("on_mysql") is None


@pytest.fixture(scope="session", params=_PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """Where a test is run."""
    return str(request.param)


@pytest.fixture(scope="module")
def gate_of(
    place: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Gate]]:
    """Starts gates whose accounts are the proxy's own, each on a database of its own: `gate_of("limited", USERS)`. For
    modules whose `place` is "embedded" or "proxy_accounts"."""
    with contextlib.ExitStack() as started:

        def start(name: str, users: list[dict[str, Any]]) -> Gate:
            directory = tmp_path_factory.mktemp(name)
            if place == "embedded":
                gate = Gate(f"sqlite:///{directory}/queue.db", directory, users=users)
            else:
                server: MariaDb = request.getfixturevalue("mariadb")
                gate = Gate(server.fresh_database(name), directory, database=name, auth="proxy", users=users)
            gate.start()
            started.callback(gate.stop)
            return gate

        yield start


@pytest.fixture
def topic(topic: Callable[..., str]) -> Callable[..., str]:
    """As the fixture that it overrides, with a key and a body."""

    def make(columns: str = "user_id BIGINT, body VARCHAR(100)", **groups: str) -> str:
        return topic(columns, **groups)

    return make


class Stuck(NamedTuple):
    """A receiver that reads nothing, and its queue."""

    queue: str
    connection: pymysql.Connection[Any]
    cursor: SSCursor

    def unacked(self, sql: Sql) -> int:
        """How many messages it has, so far as the proxy knows."""
        return int(
            sql.value(
                "SELECT unacked FROM queuegate.subscriptions WHERE connection_id = %s", self.connection.thread_id()
            )
        )


@pytest.fixture
def stuck(gate: Gate, sql: Sql, queue: Callable[..., str]) -> Iterator[Stuck]:
    """It has been sent four messages, of ids 1 to 4, which are more than sockets hold. Its leases are long."""
    q = queue("body LONGTEXT", ack_wait="'1h'", max_backoff="'2h'", poll_interval="'60s'")
    for _ in range(4):
        sql(f"INSERT INTO {q} (body) VALUES (REPEAT('x', 4000000))")
    connection = gate.connect(cursorclass=SSCursor)
    cursor = connection.cursor()
    cursor.execute(f"SELECT id, body FROM STREAM {q}")
    made = Stuck(q, connection, cursor)
    wait_until(lambda: made.unacked(sql) == 4, what="the messages to be handed out")
    yield made
    hang_up(connection)
    cursor._result.unbuffered_active = False
    connection._force_close()
