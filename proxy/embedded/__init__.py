"""A MySQL session on the embedded SQLite database.

`upstream` takes a client's commands, as proxy.upstream does for a server. `session` has each statement compiled by
rewriter.sqlite and runs the plan (`plan_runner`, `changes`, `schema`); `state`, `variables` and `transaction` hold
what the session remembers. `schema` keeps of tables what MySQL knows and SQLite does not.

Long statements run in threads (`reader_threads`), and each has a time limit (`statement_limits`).
"""
