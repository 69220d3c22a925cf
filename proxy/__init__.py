"""The MySQL server that clients see.

A packet comes in through `transport`, is read by the rules of `wire`, and reaches the command loop in `commands`.
Ordinary SQL goes on to the client's database in `upstream` (a MySQL server) or `embedded` (SQLite), and its answer goes
back the same way. A statement about queues becomes a plan in the package rewriter and is carried out in `statements`.

`app` puts everything together; `server` accepts clients; `config` reads the configuration. A module imports its own
room and the rooms below it only: tests/test_tidy.py has the order of the floors.
"""
