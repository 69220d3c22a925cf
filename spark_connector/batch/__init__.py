"""A batch read: the content of a queue, in parts that tasks read in parallel. It leases and acks nothing.

`parts` and `spans` cut the queue's ids, `conditions` checks the user's condition, `read` is the code of the driver
and its tasks.
"""
