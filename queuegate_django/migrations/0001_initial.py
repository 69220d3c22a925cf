"""The table of results."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="StoredResult",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False, verbose_name="id")),
                ("backend", models.CharField(max_length=64, verbose_name="backend")),
                ("queue", models.CharField(max_length=64, verbose_name="queue")),
                ("task", models.CharField(max_length=255, verbose_name="task")),
                ("args", models.JSONField(verbose_name="arguments")),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("run_after", models.DateTimeField(null=True, verbose_name="run after")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("READY", "Ready"),
                            ("RUNNING", "Running"),
                            ("FAILED", "Failed"),
                            ("SUCCESSFUL", "Successful"),
                        ],
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("return_value", models.JSONField(null=True, verbose_name="return value")),
                ("errors", models.JSONField(verbose_name="errors")),
                ("worker_ids", models.JSONField(verbose_name="workers")),
                ("enqueued_at", models.DateTimeField(verbose_name="enqueued at")),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("last_attempted_at", models.DateTimeField(verbose_name="last attempted at")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                ("written_at", models.DateTimeField(verbose_name="written at")),
            ],
            options={
                "verbose_name": "task result",
                "verbose_name_plural": "task results",
                "db_table": "queuegate_task_results",
                "ordering": ("-written_at",),
                "indexes": [
                    models.Index(fields=["written_at"], name="queuegate_results_written"),
                    models.Index(fields=["status", "queue"], name="queuegate_results_status"),
                ],
            },
        ),
    )
