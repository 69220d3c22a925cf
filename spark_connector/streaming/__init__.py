"""A streaming read: `queue_source` as one of a queue's consumers, `tail_source` without leases and acks.

`consumer` works on the driver: it claims messages (`claims`), acks them after the micro-batch, and renews leases
(`heartbeat`). `resumed` is what a task reads. `offsets` is the content of the checkpoint.
"""
