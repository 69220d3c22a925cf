"""The cheap look at every statement: does it concern a queue?

Nearly all statements of an application end here. `scanner` looks at the verb and the names; `passing_text` does so for
texts that come in pieces; `named_ids` reads the ids that an ACK names.
"""
