"""Products, orders and lines: fields of every kind, keys, constraints and indexes."""

from __future__ import annotations

import uuid

from django.db import models


class Product(models.Model):
    code = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=200, db_index=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    weight = models.FloatField(null=True)
    stock = models.PositiveBigIntegerField(default=0)
    details = models.JSONField(default=dict)
    picture = models.BinaryField(null=True)
    active = models.BooleanField(default=True)
    number = models.UUIDField(default=uuid.uuid4, unique=True)
    maker = models.CharField(max_length=60, null=True)

    class Meta:
        indexes = [models.Index(fields=["maker", "name"], name="shop_by_maker_name")]
        constraints = [models.CheckConstraint(condition=models.Q(price__gte=0), name="shop_price_not_negative")]


class Order(models.Model):
    customer = models.CharField(max_length=100)
    placed = models.DateTimeField()
    due = models.DateField(null=True)
    slot = models.TimeField(null=True)
    span = models.DurationField(null=True)
    note = models.TextField(blank=True)
    products = models.ManyToManyField(Product, through="Line")
    parent = models.ForeignKey("self", models.SET_NULL, null=True)

    class Meta:
        indexes = [models.Index(fields=["customer", "-placed"], name="shop_by_customer")]


class Line(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.SmallIntegerField(default=1)

    class Meta:
        unique_together = [("order", "product")]


class Label(models.Model):
    word = models.CharField(max_length=30)
    products = models.ManyToManyField(Product, related_name="tags")

    class Meta:
        db_table = "shop_labels"
