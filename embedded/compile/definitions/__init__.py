"""CREATE, ALTER, DROP: the table that MySQL means, and the SQLite table that keeps it.

`read`, `columns`, `types`, `create_table` and `alter_table` read a definition into embedded.compile.schema; `emit`
writes it for SQLite, `show_create` for the client.
"""
