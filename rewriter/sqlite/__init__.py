"""MySQL's SQL compiled to SQLite's.

`compile` takes a statement and gives a plan (`plan`): SQL for SQLite, values to bind, columns with MySQL's types.
`text` lifts literals out so that plans can be kept by shape; `expressions`, `queries`, `changes` and `definitions`
compile; `functions` run inside SQLite; `session` reads SET, SHOW and their kin. What cannot be answered as MySQL does
is refused.
"""
