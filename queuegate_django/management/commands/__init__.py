"""Commands of `manage.py`: `queuegate_worker` runs tasks, `queuegate_tasks` creates queues and shows them."""
