"""The strict reader on which rights depend.

An account that is limited to its queues and topics may run only what is understood completely: `reader` takes tokens,
`statements` returns which of the `kinds` a statement is, `lookups` reads SELECTs of one table, `variables` and
`session_queries` are what it may query of the server, `explicit_ids` checks the ids of an INSERT. What it does not
understand counts as forbidden.
"""
