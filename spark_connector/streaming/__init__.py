"""A streaming read: `queue_source` as one of a queue's consumers, `tail_source` without leases and acks.

`consumer` works on the driver: it claims messages (`claims`, each made by `claim_maker`), acks them after the
micro-batch, and renews leases. `resumed` is what a task reads. `offsets` is the content of the checkpoint.
"""
