"""Orders."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """What tasks write."""

    customer = models.CharField(max_length=200)
    amount = models.IntegerField(default=0)
