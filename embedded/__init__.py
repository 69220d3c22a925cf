"""The embedded database: a MySQL session on a SQLite file, in the proxy's own process.

`session` takes a client's statements: it has each compiled by `compile`, which turns MySQL's SQL into SQLite's, and
runs the plan. `schema` defines tables, and keeps of them what MySQL knows and SQLite does not. `database` is the file
itself: one writer, readers beside it, and the engine's connection to it.

Nothing here knows packets: proxy.upstream.embedded reads a client's commands and writes the answers.
"""
