"""MySQL's SQL compiled to SQLite's.

`statement` compiles one statement to a plan (`plan`): SQL for SQLite, values to bind, columns with MySQL's types.
`text` lifts literals out so that plans can be cached by shape; `expressions`, `queries`, `changes` and `definitions`
compile; `functions` run inside SQLite; `commands` reads SET, SHOW and similar statements. `binding` binds a plan's
values. What cannot be answered as MySQL does is refused.
"""
