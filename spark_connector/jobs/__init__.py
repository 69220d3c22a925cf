"""The jobs of a pipeline around queues: archive, report, dead-letters, replay, enqueue.

`python -m spark_connector.jobs` runs them from a shell; see docs/spark-jobs.md. Each is also a function, for
example `from spark_connector.jobs.archive.job import archive`. Nothing is imported here, so that modules without
Spark can be used without it.
"""
