"""Galera clusters: what one node has committed is visible at another one a moment later, and a query may use several
nodes: its driver and its tasks have separate connections, and a reconnect may lead to another node."""

from __future__ import annotations

from spark_connector.client.connection import Client

FRESH = "SET SESSION wsrep_sync_wait = 1"
"""A SELECT outside of a transaction waits until its node has applied what all nodes had committed before. So a task
finds every message that the driver has planned for it."""

_CLUSTER = "SHOW VARIABLES LIKE 'wsrep_on'"


def is_cluster(client: Client) -> bool:
    """Whether the database is a node of a Galera cluster."""
    return any(str(value).upper() in ("ON", "1") for _, value in client.rows(_CLUSTER))


def settings(client: Client) -> tuple[str, ...]:
    """The initial statements of each connection of a query, for this database."""
    return (FRESH,) if is_cluster(client) else ()
