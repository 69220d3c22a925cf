"""`python -m benchmarks jobs`: background jobs as a team on MySQL has them run, each way with its own defaults.

`run` has the turns and the report, `rivals` who takes part. `by_hand`, `with_queuegate`, `django_settings`,
`django_jobs`, `django_producer` and, compiled by `db_scheduler`, DbSchedulerJobs.java are what their programs run: one
job a call, and workers with four slots.
"""
