"""report: how a database's queues are, and one of them in detail.

`frames` reckons, `values` holds what a report says, `text` and `page` show it; `job` puts them together.
"""
