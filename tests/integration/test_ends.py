"""How connections end, as the server counts it: a proxy between must not make ends look better or worse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers import Gate, MariaDb, Sql, hang_up, wait_until


def test_a_client_that_hangs_up_is_counted_by_the_server_and_one_that_says_goodbye_is_not(
    own_mariadb: MariaDb, tmp_path: Path
) -> None:
    gate = Gate(own_mariadb.url(), tmp_path).start()
    with own_mariadb.connect() as connection:
        for connect in (own_mariadb.connect, gate.connect):
            count_ends(Sql(connection), connect)
    gate.stop()


def count_ends(watcher: Sql, connect: Callable[[], Any]) -> None:
    def aborted() -> int:
        return int(watcher.row("SHOW GLOBAL STATUS LIKE 'Aborted_clients'")[1])

    def listed() -> set[int]:
        return set(watcher.column("SELECT id FROM information_schema.processlist"))

    before = aborted()
    for count in (0, 0, 1, 2):
        client = connect()
        number = client.thread_id()
        assert number in listed()
        if count:
            hang_up(client)
        else:
            client.close()
        wait_until(lambda number=number: number not in listed(), what="the session's end")  # type: ignore[misc]
        wait_until(lambda count=count: aborted() == before + count, what="the count")  # type: ignore[misc]
        client._force_close()


def how_it_ends(connection: Any) -> str:
    try:
        return repr(connection._sock.recv(1000))
    except ConnectionResetError:
        return "reset"


@pytest.mark.parametrize("end", ["SET wait_timeout = 1", "kill"])
def test_a_client_at_rest_sees_its_connection_end_as_the_server_ends_it(
    mariadb: MariaDb, tmp_path: Path, end: str
) -> None:
    """MariaDB resets the connection of a client that was at rest for too long, and closes that of one it kills."""
    gate = Gate(mariadb.url(), tmp_path).start()
    seen = []
    for connect in (mariadb.connect, gate.connect):
        with connect(read_timeout=10) as client, mariadb.connect() as other:
            with client.cursor() as cursor, other.cursor() as killer:
                cursor.execute("SELECT 1" if end == "kill" else end)
                cursor.fetchall()
                if end == "kill":
                    killer.execute(f"KILL {client.thread_id()}")
            seen.append(how_it_ends(client))
            client._force_close()
    assert seen[0] == seen[1]
    gate.stop()
