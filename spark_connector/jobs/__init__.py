"""The jobs of a pipeline around queues: archive, report, dead-letters, replay, enqueue.

`python -m spark_connector.jobs` runs them from a shell, docs/spark-jobs.md says how. Each is a function as well, for
example `from spark_connector.jobs.archive.job import archive`. Nothing is imported here, so that what needs no Spark
can be had without it.
"""
