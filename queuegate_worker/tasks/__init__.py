"""Tasks: functions that are called by name, from messages of a queue.

A `task` is a function with its options; a call of it is a message, which `arguments` writes and reads. A `handler`
runs the tasks of a queue in a worker, and a `time_limits` thread ends what runs too long. The `layout` is what the
database needs: queues, schedules, and tables of results. `work` runs it all in one process.
"""
