"""Every kind of change to tables that hold rows, with a step over the data between them."""

from __future__ import annotations

import decimal

from django.db import migrations, models


def add_products(apps, schema_editor):
    product = apps.get_model("shop", "Product")
    product.objects.create(code="old", name="From before", price=decimal.Decimal("1.50"), vendor="none")


def remove_products(apps, schema_editor):
    apps.get_model("shop", "Product").objects.filter(code="old").delete()


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.AddField("Product", "vendor", models.CharField(max_length=30, default="unknown")),
        migrations.RunPython(add_products, remove_products),
        migrations.AlterField("Product", "vendor", models.CharField(max_length=60, null=True)),
        migrations.RenameField("Product", "vendor", "maker"),
        migrations.AlterField("Product", "stock", models.PositiveBigIntegerField(default=0)),
        migrations.AddIndex("Product", models.Index(fields=["maker", "name"], name="shop_by_maker")),
        migrations.RenameIndex("Product", new_name="shop_by_maker_name", old_name="shop_by_maker"),
        migrations.CreateModel(
            "Tag",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("word", models.CharField(max_length=30)),
                ("products", models.ManyToManyField("shop.Product", related_name="tags")),
            ],
        ),
        migrations.RenameModel("Tag", "Label"),
        migrations.AlterModelTable("Label", "shop_labels"),
        migrations.AddField("Order", "parent", models.ForeignKey("shop.Order", models.SET_NULL, null=True)),
        migrations.RemoveField("Order", "slot"),
        migrations.AddField("Order", "slot", models.TimeField(null=True)),
    ]
