"""Classifies every statement cheaply: does it concern a queue?

Nearly all statements of an application end here. `scanner` checks the verb and the names; `large_text` does so for
texts that come in pieces; `named_ids` reads the ids that an ACK names.
"""
