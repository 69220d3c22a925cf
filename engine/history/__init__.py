"""The history of topics that outlives the process: the option trace_keep.

`writer` writes what is recorded to a table of the database, `cleaner` deletes there what is old, `history` is both of
them, and what is asked of the table. Nothing here is needed for delivery.
"""
