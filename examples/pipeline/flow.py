"""Spark's side: orders out of the queue, into Parquet, an ordinary table and another queue; each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.pipeline.orders import BIG_CENTS
from examples.pipeline.shop import BIG, ORDERS, Shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 5000  # messages of a micro-batch
_END_SECONDS = 240


class Flow:
    """One run of the stream: what is in the queue now, to the end.

    Spark may repeat a micro-batch after a crash; each of its three sinks is told its number, and does it once.
    """

    def __init__(self, spark: SparkSession, url: str, folder: str, name: str) -> None:
        self._spark, self._url, self._folder, self._name = spark, url, folder, name

    def run(self) -> int:
        """Returns how many micro-batches there were."""
        stream = self._spark.readStream.format("queuegate").option("url", self._url)
        orders = stream.option("maxMessagesPerTrigger", _AT_ONCE).load(ORDERS)
        writer = orders.writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoint").queryName(self._name)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(_END_SECONDS):
            query.stop()
            raise RuntimeError(f"the stream did not end within {_END_SECONDS} s")
        return sum(1 for progress in query.recentProgress if progress.numInputRows)

    def _batch(self, orders: DataFrame, batch: int) -> None:
        orders = orders.persist()
        good = orders.where("quantity > 0")
        good.write.mode("overwrite").parquet(f"{self._folder}/orders/batch={batch}")
        self._enqueue_big(good, batch)
        shop = Shop(self._url)
        try:
            shop.book(batch, [tuple(row) for row in _revenue(good).collect()])
            bad = [row.id for row in orders.where("quantity <= 0").select("id").collect()]
            shop.reject(bad, "quantity is not above 0")
        finally:
            shop.close()
            orders.unpersist()

    def _enqueue_big(self, good: DataFrame, batch: int) -> None:
        big = good.where(f"cents >= {BIG_CENTS}").select("order_no", "customer", "cents")
        writer = big.write.format("queuegate").mode("append").option("url", self._url).option("queue", BIG)
        writer.option("txnAppId", self._name).option("txnVersion", batch).save()


def _revenue(orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return orders.groupBy("product").agg(F.count("*"), F.sum("cents"))
