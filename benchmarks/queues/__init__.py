"""`python -m benchmarks rivals`: the queue beside what teams use in its place, in one run.

Beside queuegate on MariaDB and on its own database: a table by hand with SKIP LOCKED on the same MariaDB and on
PostgreSQL, RabbitMQ, and Redis Streams. All flush every commit. base.py says what a rival has to do, run.py in which
cases they are compared, targets.py what queuegate has to reach; each other module is one rival, driven by its usual
Python client.
"""
