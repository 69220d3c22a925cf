"""One client's MySQL session on the embedded database.

`session` is one client's; `dispatch` has each of its statements compiled by embedded.compile and runs the plan
(`plan_runner`, `changes`); `administration` executes SET, SHOW and similar statements. `state`, `variables` and
`transaction` are the state of the session; `shared_database` is what all sessions of a file share. `information_schema`
shows the tables and the session.

Long statements are parsed in threads of `shared_database`, and each has a time limit (`statement_limits`).
"""
