"""The tables as they were first."""

from __future__ import annotations

import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.CharField(max_length=100)),
                ("placed", models.DateTimeField()),
                ("due", models.DateField(null=True)),
                ("slot", models.TimeField(null=True)),
                ("span", models.DurationField(null=True)),
                ("note", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="Line",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("quantity", models.SmallIntegerField(default=1)),
                (
                    "order",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lines", to="shop.order"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Product",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=20, unique=True)),
                ("name", models.CharField(db_index=True, max_length=200)),
                ("price", models.DecimalField(decimal_places=2, max_digits=10)),
                ("weight", models.FloatField(null=True)),
                ("stock", models.PositiveIntegerField(default=0)),
                ("details", models.JSONField(default=dict)),
                ("picture", models.BinaryField(null=True)),
                ("active", models.BooleanField(default=True)),
                ("number", models.UUIDField(default=uuid.uuid4, unique=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("price__gte", 0)), name="shop_price_not_negative")
                ],
            },
        ),
        migrations.AddField(
            model_name="order",
            name="products",
            field=models.ManyToManyField(through="shop.Line", to="shop.product"),
        ),
        migrations.AddField(
            model_name="line",
            name="product",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="shop.product"),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(fields=["customer", "-placed"], name="shop_by_customer"),
        ),
        migrations.AlterUniqueTogether(
            name="line",
            unique_together={("order", "product")},
        ),
    ]
