"""Reserved for the Spark connector, which imports nothing of the other packages."""
