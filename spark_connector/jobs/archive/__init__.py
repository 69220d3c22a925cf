"""archive: acked messages to Parquet, by day of their ack, so that the proxy may purge them.

`job` is the job; `queue` has the statements on the queue, `folder` the archive's folder; `intervals` and `slices`
divide the work.
"""
