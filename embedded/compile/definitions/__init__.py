"""CREATE, ALTER, DROP: the table as MySQL defines it, and the SQLite table that stores it.

`read`, `columns`, `types`, `create_table` and `alter_table` read a definition into embedded.compile.schema; `emit`
writes it for SQLite, `show_create` for the client.
"""
