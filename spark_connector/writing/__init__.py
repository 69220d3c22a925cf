"""A write: a DataFrame's rows become messages, all of them or none.

`plan` decides what will be written, `stage` stores rows before they are published, `sinks` has the two kinds of write,
`routed` writes to several queues and topics, `publish_log` makes repeated writes idempotent.
"""
