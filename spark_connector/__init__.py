"""The Spark connector: queues as a source and a sink of Spark, in batch and in streaming, and the jobs of the pipeline.

A client of the proxy like any other: it speaks SQL over PyMySQL and imports nothing of the other folders. Only
`datasource` and `jobs` know Spark's classes; everything below is plain Python, tested without a JVM: `batch`,
`streaming` and `writing` are the three uses, `values` turns rows into Arrow and back, `client` is the connection.
Nothing is imported here: an import that fails would make Spark say that the format does not exist.
"""
