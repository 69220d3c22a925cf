"""Connections to the proxy, and the descriptions of queues and topics.

`connection` adds clear errors and transactions that are retried where that is safe; `reconnecting` survives a restart
of the proxy; `pool` reuses connections for the next task. `row_blocks` reads many rows at a time. `topic_log` has
queries on a topic's log, also of one with numbers.
"""
