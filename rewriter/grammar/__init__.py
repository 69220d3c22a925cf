"""Statements about queues: tokens in, nodes out.

`parse` decides which statement it is; `create_queue`, `insert`, `ack`, `stream` and `nack_release_renew` read theirs
into the nodes of `statements`. A grammar knows no queue: whether there is one of that name is decided in
rewriter.plans.
"""
