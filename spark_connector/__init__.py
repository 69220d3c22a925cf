"""The Spark connector: queues as a source and a sink of Spark, in batch and in streaming, and the jobs of the pipeline.

It is a normal client of the proxy: it sends SQL with PyMySQL and imports nothing from the other folders. Only
`datasource` and `jobs` use Spark's classes; everything below is plain Python, tested without a JVM: `batch`,
`streaming` and `writing` are the three uses, `values` converts rows to Arrow and back, `client` is the connection,
over the `mysql_client` that it shares with the other clients.
Nothing is imported here: if an import failed, Spark would report that the format does not exist.
"""
