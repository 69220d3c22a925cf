"""A batch read: the content of a queue, in parts that tasks read in parallel. It leases and acks nothing.

`parts` cuts the queue's ids, `read` is the code of the driver and its tasks.
"""
