"""Orders."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """See the module."""

    dependencies = ()
    operations = (
        migrations.CreateModel(
            "Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, auto_created=True, verbose_name="ID")),
                ("customer", models.CharField(max_length=200)),
                ("amount", models.IntegerField(default=0)),
            ],
        ),
    )
