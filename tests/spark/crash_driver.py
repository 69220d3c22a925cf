"""A Spark driver in a process of its own, to be killed: one streaming query from a queue into Parquet files."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from pyspark.sql import SparkSession

    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]")
    for key, value in given["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.readStream.format("queuegate").options(**given["source"]).load()
    writer = frame.writeStream.format("parquet").option("path", given["out"])
    writer = writer.option("checkpointLocation", given["checkpoint"])
    query = writer.trigger(**given["trigger"]).start()
    print("running", flush=True)
    query.awaitTermination()
    print("ended", flush=True)


main()
