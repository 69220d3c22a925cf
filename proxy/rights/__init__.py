"""What an account of the proxy may do, and what an ordinary statement does.

`account_rights` are the rights of the configuration. An account that is limited to its queues and topics may run only
what is understood completely: `statements` returns which of the `kinds` a statement is, `lookups` reads SELECTs of one
table, `variables` and `session_queries` are what it may query of the server. What they do not understand counts as
forbidden. They read by rewriter.text.strict_reader.

Pure. proxy/session/guard.py applies it to what goes to the database.
"""
