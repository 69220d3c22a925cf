"""`python -m benchmarks topics`: topics beside Redis Streams, RabbitMQ streams and a table of PostgreSQL.

run        what is measured, in which order; the report
targets    what topics have to reach; pure
reading    producers, groups, lone messages, replay: each log in the same manner
groups     groups that sleep; seeks in a long topic
crew       clients in processes of their own, and what the servers use meanwhile
logs       what a log has to do to be measured
gate       topics and queues of queuegate as logs
others     the servers of the others, started for this, and which are missing
redis_streams, rabbitmq_streams, postgresql    their logs, driven by their usual Python clients
"""
