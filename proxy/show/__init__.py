"""What clients are shown of queues, streams, messages and connections.

`queue_status` answers every SHOW of queues, EXPLAIN DELIVERY and the tables of the database queuegate, as far as the
account may see them. `status_tables` has their columns and values; `system_tables`,
`system_information` and `system_shows` put them where clients look for tables. Nothing here changes anything.
"""
