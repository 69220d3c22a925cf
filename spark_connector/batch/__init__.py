"""A batch read: what is in a queue, in parts that tasks read side by side. It takes nothing.

`parts` and `spans` cut the queue's ids, `conditions` is the user's own condition, `read` is what the driver and its
tasks do.
"""
