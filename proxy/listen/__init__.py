"""Sockets that clients connect to, and how many clients may.

`listener` binds them, for one worker or several. `admission` decides who may come in; `login_turns` and
`bounded_connections` share that among addresses, so that one address keeps no one else out. `shared_counts` holds the
counts of all workers in shared memory. `sweeper` finds clients that have vanished.
"""
