"""Orders out of a queue into a table that keeps them all, and the big ones into another queue; each once.

The table's flow is the queue's receiver: what it has written is acked. The second flow reads the table, not the queue,
so both see every order.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

URL = os.environ.get("QUEUEGATE_URL", "mysql://root@127.0.0.1:3307/main")
spark = SparkSession.active()


@dp.table
def order_book() -> DataFrame:
    """Every order that was ever enqueued."""
    return spark.readStream.format("queuegate").option("url", URL).load("shop_orders")


dp.create_sink("big_orders", "queuegate", {"url": URL, "queue": "shop_big_orders"})


@dp.append_flow(target="big_orders")
def tell_of_big_orders() -> DataFrame:
    """Somebody waits for these."""
    return spark.readStream.table("order_book").where("cents >= 100000").select("order_no", "cents")
