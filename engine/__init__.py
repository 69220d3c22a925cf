"""The queue engine: messages in a table, pushed to receivers. Knows no packets and no client SQL.

`engine` keeps every queue of one database in step with the catalog. `delivery` is one queue in memory, from a commit to
the receiver's batch; `background` has the other services. `store` is the interface to the table, `backend` has the
database drivers, `model` the frozen values that all of them share. Time and jitter are injected (`clock`).
"""
