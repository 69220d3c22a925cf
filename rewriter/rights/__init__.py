"""The narrow reader on which rights depend.

An account that is limited to its queues and topics may run only what is understood to the end: `reader` takes tokens,
`statements` says which of the `kinds` a statement is, `lookups` reads SELECTs of one table, `variables` and `questions`
what it may ask of the server. What it does not understand counts as forbidden.
"""
