"""Sending: messages into queues, in the application's own transaction.

A `queue` is what programs use. It checks payloads against a `models` class, has `rows` make one INSERT of them, and
gives that to a `transport`: the database, or a list of messages in a test. The database's runs it on one of the
`connections` that applications have.
"""
