"""Connections to a database server, behind one seam. The only place of the engine where a driver is imported.

`base` is the contract; `mysql` fulfils it here, embedded.database for SQLite. `pool` runs blocking calls in threads.
`url` reads which database it is, `servers` knows which versions can serve.
"""
