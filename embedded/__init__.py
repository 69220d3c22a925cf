"""The embedded database: a MySQL session on a SQLite file, in the proxy's own process.

`session` takes a client's statements: it has each compiled by `compile`, which turns MySQL's SQL into SQLite's, and
runs the plan. `schema` defines tables, and stores what MySQL knows of them and SQLite does not. `database` is the file
itself: one writer, concurrent readers, and the engine's connection to it.

Nothing here handles packets: proxy.upstream.embedded reads a client's commands and writes the answers.
"""
