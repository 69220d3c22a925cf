"""Settings of a small Django project whose tasks are in queuegate; the environment says where that is."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from importlib.util import find_spec

if find_spec("MySQLdb") is None:
    import pymysql

    pymysql.version_info = (2, 2, 7, "final", 0)  # Django asks for a version of mysqlclient
    pymysql.install_as_MySQLdb()

HAS_TASKS = find_spec("django.tasks") is not None  # Django 6; else the backport
SECRET_KEY = "of no use to anybody"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
STATIC_URL = "static/"
USE_TZ = os.environ.get("QG_USE_TZ", "1") == "1"
TIME_ZONE = "Europe/Berlin"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"),
    *("django.contrib.messages", "queuegate_django", "shop"),
    *(() if HAS_TASKS else ("django_tasks",)),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["QG_PORT"],
        "NAME": os.environ["QG_DATABASE"],
        "USER": "root",
        "CONN_MAX_AGE": json.loads(os.environ.get("QG_MAX_AGE", "null")),
        "OPTIONS": {"charset": "utf8mb4"},
    },
}
if second := os.environ.get("QG_SITE"):
    site = {"ENGINE": "django.db.backends.sqlite3", "NAME": second}
    DATABASES = {"default": site, "queue": DATABASES["default"]}
OPTIONS = json.loads(os.environ.get("QG_OPTIONS", "{}"))
if "keep_results" in OPTIONS:
    OPTIONS["keep_results"] = timedelta(seconds=OPTIONS["keep_results"])
TASKS = {
    "default": {
        "BACKEND": "queuegate_django.backend.QueuegateBackend",
        "QUEUES": json.loads(os.environ.get("QG_QUEUES", '["default", "mails"]')),
        "OPTIONS": OPTIONS,
    }
}
