"""The state for a client's next statement.

`session` is the state: account, current database, character set, sql_mode, and `stream_memory` for polls.
`transaction_scope` collects what the open transaction does to queues, `open_transactions` bounds their number for each
account. `guard` filters what goes to the database where an account is limited to its queues: what it cannot read is
refused.
"""
