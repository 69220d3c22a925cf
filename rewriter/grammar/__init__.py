"""Statements about queues: tokens in, nodes out.

`parse` decides which statement it is; `create_queue`, `insert`, `ack`, `stream` and `lease_verbs` read theirs into the
nodes of `statements`. A grammar knows no queue: whether there is one of that name is decided in rewriter.plans.
"""
