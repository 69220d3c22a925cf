"""The MySQL server that clients see.

A packet comes in through `transport`, is read by the rules of the package mysql_wire, and reaches the command loop in
`commands`. Ordinary SQL goes on to the client's database by way of `upstream`, a MySQL server or the package embedded,
and its answer goes back the same way. A statement about queues becomes a plan in the package rewriter and is carried
out in `statements`.

`server` accepts clients; `config` reads the configuration; queuegate.app puts everything together. A module imports its
own room and the rooms below it only: tests/test_tidy.py has the order of the floors.
"""
