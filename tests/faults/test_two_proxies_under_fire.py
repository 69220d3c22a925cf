"""Two proxies on one MariaDB, four receivers, twenty thousand messages; one proxy is killed, the database restarted."""

from __future__ import annotations

import pytest
from faults.leases import Clients, Delivery, Field, Q, judge
from servers import NS, Gate, Sql

pytestmark = pytest.mark.long

ONE = Delivery(1, 0, 1, 100 * NS, 0)
LATER = Delivery(1, 0, 2, 200 * NS, 1)


@pytest.mark.parametrize(
    ("deliveries", "acked_ns", "verdict"),
    [
        ([LATER], {}, "never delivered"),
        ([ONE, Delivery(1, 0, 1, 200 * NS, 1)], {}, "one lease, two deliveries"),
        ([ONE, Delivery(1, 0, 2, 103 * NS, 1)], {}, "two leases at once"),
        ([ONE, LATER], {1: 150 * NS}, "after its ack had returned"),
    ],
)
def test_the_judge_sees_what_is_wrong(deliveries, acked_ns, verdict):
    field = Field(2 if "never" in verdict else 1)
    field.deliveries, field.acked_ns = deliveries, acked_ns
    with pytest.raises(AssertionError, match=verdict):
        judge(field, dict(enumerate(range(field.total), 1)))


def test_nothing_is_lost_nor_resent_nor_leased_twice(own_mariadb, tmp_path):
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(own_mariadb.url(), tmp_path / name).start())
    setup = Sql(gates[0].connect())
    setup(Q)
    setup.close()
    clients = Clients(gates, Field(20_000))
    clients.reached(0.3)
    gates[0].kill()
    gates[0].start()
    clients.reached(0.6)
    own_mariadb.stop()
    own_mariadb.start()
    check = Sql(own_mariadb.connect(database="main"))
    clients.finish(check)
    check.close()
