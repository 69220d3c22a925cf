"""Django's settings for both of its task backends: JOBS_BACKEND says which. Run by the Python that has Django."""

from __future__ import annotations

import os

SECRET_KEY = "of a benchmark"
USE_TZ = True
BACKENDS = {
    "dj_queue": ("dj_queue.backend.DjQueueBackend", {"workers": [{"queues": "*", "threads": 4}]}),
    "django_tasks_db": ("django_tasks_db.DatabaseBackend", {}),
}
"""What each is told: four slots. All else is its default."""

_APP = os.environ["JOBS_BACKEND"]
_BACKEND, _OPTIONS = BACKENDS[_APP]
INSTALLED_APPS = [_APP]
TASKS = {"default": {"BACKEND": _BACKEND, "QUEUES": [], "OPTIONS": _OPTIONS}}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["JOBS_PORT"],
        "USER": "root",
        "NAME": os.environ["JOBS_DATABASE"],
        "CONN_MAX_AGE": None,  # else a worker connects anew for each job
    }
}
LOGGING = {"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}}
