"""The package of which the test cases of django-tasks-db import their tasks."""
