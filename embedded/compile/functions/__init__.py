"""Functions that SQLite calls while a statement runs: MySQL's, in Python, where SQLite lacks them.

Each is registered where it is written, by `scalar`, with how it treats NULL; `registry` has them all. They are pure but
for `context`, which holds the session's time zone and its named locks.
"""
