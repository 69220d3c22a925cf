"""Connections to a database server, behind one interface. The only place of the engine where a driver is imported.

`base` is the interface; `mysql` implements it here, embedded.database for SQLite. `pool` runs blocking calls in
threads. `url` parses which database it is, `servers` decides which versions are supported.
"""
