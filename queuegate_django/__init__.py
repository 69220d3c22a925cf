"""queuegate as a backend of Django's tasks: a task is a row, committed with the application's own rows.

    TASKS = {"default": {"BACKEND": "queuegate_django.backend.QueuegateBackend"}}

`backend` enqueues, and reads results. Its `options` are OPTIONS in TASKS. `queues` has the SQL that is sent over
Django's connection, `results` what is known of a task: by its message, or by the table of `models`, which `migrations`
create. `execution` runs the task of one message; `worker_run` has workers of queuegate do that, for the commands in
`management`. `apps` creates missing queues after migrations, `admin` shows results. `tasks_api` is Django's own part:
django.tasks, or its backport. It needs Django and the workers of queuegate.
"""
