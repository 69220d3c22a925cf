"""archive: acked messages to Parquet, by day of their ack, so that the proxy may purge them.

`job` is the job; `queue` is the queue's side of it, `folder` the archive's; `intervals` and `slices` divide the work.
"""
