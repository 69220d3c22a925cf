"""The narrow reader on which rights depend.

An account that is limited to its queues may run only what is understood to the end: `reader` takes tokens, `statements`
says which of the `kinds` a statement is, `variables` and `questions` what it may ask of the server. What it does not
understand counts as forbidden.
"""
