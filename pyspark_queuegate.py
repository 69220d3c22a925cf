"""Makes the format `queuegate` known to Spark, which looks at every module called `pyspark_...` for a DefaultSource."""

from spark_connector.datasource import QueuegateDataSource as DefaultSource

__all__ = ["DefaultSource"]
