"""Two proxies of one database: the first screen of the one has the rates and the receivers of both."""

from __future__ import annotations

import pytest
from console_browser import opened
from servers import Gate, Sql, Stream, wait_until
from slowness import scaled

pytestmark = [pytest.mark.parametrize("place", ["mariadb"], indirect=True), pytest.mark.long]


@pytest.fixture
def finding_each_other():
    return True


@pytest.fixture
def pair(mariadb, tmp_path, place, finding_each_other):
    """The first has a console."""
    url = mariadb.fresh_database("screened")
    gates = []
    try:
        for name, config in (("a", {"console": {"listen": "127.0.0.1:0"}}), ("b", {})):
            (tmp_path / name).mkdir()
            peers = {} if finding_each_other else {"peers": False}
            gates.append(Gate(url, tmp_path / name, database="screened", **config, **peers).start())
        if finding_each_other:
            wait_until(lambda: all("linked to another proxy" in gate.log for gate in gates), what="the link")
        opened(gates[0])
        yield gates
    finally:
        for gate in gates:
            gate.stop()


@pytest.fixture
def gate(pair):
    """Where the person of these tests logs in."""
    return pair[0]


def row_of(page, name):
    return page.get_by_role("region", name="Queues").get_by_role("row").filter(has_text=name)


def test_rates_and_receivers_are_those_of_both(pair, person):
    one, other = (Sql(gate.connect()) for gate in pair)
    one("CREATE QUEUE of_both_proxies (payload VARCHAR(50))")
    wait_until(lambda: "of_both_proxies" in other.column("SHOW QUEUES"), what="the queue at the other proxy")
    here, there = (Stream(gate, "SELECT id FROM STREAM of_both_proxies WITH (prefetch = 1)") for gate in pair)
    page = person()
    page.goto("/?filter=of_both_proxies")  # the server may have more queues than a page, those of other databases
    page.get_by_text("Rates and receivers are those of all 2 processes that serve this database.").wait_for()
    for _ in range(6):
        other("INSERT INTO of_both_proxies (payload) VALUES ('x')")

    def acked():
        for stream in (here, there):
            for (id_,) in list(stream.rows):
                other(f"ACK of_both_proxies {id_}")
        return other.value("SELECT COUNT(*) FROM of_both_proxies WHERE time_acked IS NULL") == 0

    wait_until(acked, what="all messages to be acked")
    # Acked in the last minute, there. The counters are read seldom where reading them takes long, as on a busy machine.
    row_of(page, "of_both_proxies").get_by_role("cell", name="6", exact=True).wait_for(timeout=scaled(50) * 1000)
    row_of(page, "of_both_proxies").get_by_role("link", name="2", exact=True).click()
    page.get_by_role("heading", name="2 receivers, 0 unacked").wait_for()
    for stream in (here, there):
        stream.close()
    for client in (one, other):
        client.close()


@pytest.mark.parametrize("finding_each_other", [False])
def test_a_proxy_that_does_not_find_others_says_so_beside_the_figures(pair, person):
    client = Sql(pair[0].connect())
    client("CREATE QUEUE of_both_proxies (payload VARCHAR(50))")
    client.close()
    page = person()
    page.goto("/?filter=of_both_proxies")  # the server may have more queues than a page, those of other databases
    page.get_by_text("Rates and receivers are those of this proxy alone").wait_for()
    page.get_by_role("columnheader", name="Acked/min here").wait_for()
    page.get_by_role("columnheader", name="Receivers here").wait_for()
