"""A streaming read: `queue_source` as one of a queue's consumers, `tail_source` without taking anything.

`consumer` works on the driver: it claims messages (`claims`), acks them after the micro-batch, and renews leases
(`heartbeat`). `resumed` is what a task reads. `offsets` is what the checkpoint keeps.
"""
