"""The history of topics that outlives the process: the option trace_keep.

`writer` writes recorded events to a table of the database, `cleaner` deletes old ones, `history` combines both with the
queries of the table. Nothing here is needed for delivery.
"""
