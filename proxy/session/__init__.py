"""What holds for a client's next statement.

`session` is the state: account, current database, character set, sql_mode. `transaction_scope` collects what the open
transaction does to queues, `open_transactions` bounds their number for each account. `guard` stands before the database
where an account is limited to its queues: what it has not read does not pass.
"""
