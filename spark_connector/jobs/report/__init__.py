"""report: the state of a database's queues, and one of them in detail.

`frames` computes it, `values` has the report's data classes, `text` and `page` show it; `job` combines them.
"""
