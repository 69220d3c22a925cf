"""One client's MySQL session on the embedded database.

`session` has each statement compiled by embedded.compile and runs the plan (`plan_runner`, `changes`); `administration`
carries out SET, SHOW and their kin. `state`, `variables` and `transaction` hold what the session remembers;
`shared_database` what all sessions of a file share. `information_schema` shows the tables and the session.

Long statements run in threads (`reader_threads`), and each has a time limit (`statement_limits`).
"""
