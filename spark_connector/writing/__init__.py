"""A write: a DataFrame's rows become messages, all of them or none.

`plan` settles what will be done, `stage` keeps rows that nobody receives yet, `sinks` are the two ways in,
`routed` goes to several queues and topics, `publish_log` makes a repeated write count once.
"""
