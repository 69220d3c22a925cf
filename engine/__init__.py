"""The queue engine: messages in a table, pushed to receivers. Knows no packets and no client SQL.

`engine` keeps every queue of one database in step with the catalog. `delivery` is one queue in memory, from a commit to
the receiver's batch; `duties` run beside it. `store` is the table behind a seam, `backend` the database drivers.
`model` has the words that all of them share, frozen. Time and chance are injected (`clock`).
"""
