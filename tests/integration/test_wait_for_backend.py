"""A proxy that is started before its database, as containers are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from servers import Gate, MariaDb, Sql, private, wait_until
from slowness import scaled


@pytest.fixture
def server(mariadb):
    with private(MariaDb()) as server:
        server.kill()
        yield server


@pytest.mark.parametrize("workers", [1, 2])
def test_it_serves_once_the_server_is_there(server, tmp_path, workers):
    gate = Gate(server.url(), tmp_path, workers=workers, wait_for_backend="60s")
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(gate.start)
        wait_until(lambda: gate.log_file.exists() and "the database is not there yet" in gate.log, 30)
        assert gate.log.count("not there yet") == 1
        server.start()
        starting.result(scaled(60))
    try:
        client = Sql(gate.connect())
        assert client.value("SELECT 1") == 1
        client.close()
    finally:
        gate.stop()


def test_sigterm_ends_the_wait(server, tmp_path):
    gate = Gate(server.url(), tmp_path, wait_for_backend="1h")
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(gate.start)
        wait_until(lambda: gate.log_file.exists() and "the database is not there yet" in gate.log, 30)
        assert gate.terminate() == 0
        with pytest.raises(AssertionError):
            starting.result(scaled(60))


def test_a_wrong_password_ends_the_start_in_one_line(mariadb, tmp_path):
    """Nothing is tried again, and nothing says so."""
    with mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS barred@'127.0.0.1'")
        cursor.execute("CREATE USER barred@'127.0.0.1' IDENTIFIED BY 'right'")
    gate = Gate(mariadb.url().replace("root@", "barred:wrong@"), tmp_path)
    with pytest.raises(AssertionError, match="queuegate ended with 1"):
        gate.start()
    told = [line for line in gate.log.splitlines() if "Access denied for user 'barred'" in line]
    assert len(told) == 1 and told[0].startswith("queuegate: cannot connect to "), gate.log
    assert "trying again" not in gate.log
