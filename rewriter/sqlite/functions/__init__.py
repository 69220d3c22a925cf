"""Functions that SQLite calls while a statement runs: MySQL's, in Python, where SQLite lacks them.

`registry` lists them with their arity and how they treat NULL. They are pure but for `context`, which holds the
session's time zone and its named locks.
"""
