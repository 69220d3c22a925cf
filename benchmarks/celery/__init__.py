"""`python -m benchmarks celery`: the same tasks by the same workers, on queuegate and on the brokers of others.

queuegate on both of its backends, RabbitMQ, and Redis, in one run and in turns. `brokers` says where each is and what
it promises, `tasks` is the application that the workers run, `run` measures.
"""
