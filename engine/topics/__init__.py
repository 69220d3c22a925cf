"""Topics beyond the queues of their consumer groups: readers of the log itself, and what moves a group.

Lies above delivery, whose managers serve the groups' queues, and below the engine.
"""
