"""What clients are shown of queues, streams, messages and connections.

`queue_status` answers every SHOW of queues and the tables of the database queuegate, as far as the account may see them
(`visibility`); `delivery_views` answers EXPLAIN DELIVERY and TRACE MESSAGE. `status_tables` has their columns and
values; `system_information` and `system_shows` put them where clients look for tables. Nothing here changes anything.
"""
