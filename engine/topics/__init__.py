"""Topics beyond the queues of their consumer groups: readers of the log itself, and moving a group.

A layer above delivery, whose managers serve the groups' queues, and below the engine.
"""
