"""Galera clusters: what one node has committed is visible at another a moment later, and a query may use several: its
driver and its tasks connect each by itself, and a connection that broke may come back at another node."""

from __future__ import annotations

from spark_connector.client.connection import Client

FRESH = "SET SESSION wsrep_sync_wait = 1"
"""A SELECT outside of a transaction waits until its node has what all nodes had committed before. So a task finds every
message that the driver has planned for it."""

_CLUSTER = "SHOW VARIABLES LIKE 'wsrep_on'"


def on_a_cluster(client: Client) -> bool:
    """Whether the database is a node of a Galera cluster."""
    return any(str(value).upper() in ("ON", "1") for _, value in client.rows(_CLUSTER))


def settings(client: Client) -> tuple[str, ...]:
    """What each connection of a query begins with, for this database."""
    return (FRESH,) if on_a_cluster(client) else ()
