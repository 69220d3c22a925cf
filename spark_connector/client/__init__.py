"""A connection to the proxy, and what a queue or a topic is as the proxy tells.

`connection` adds clear errors and transactions that are tried again where that is safe; `reconnecting` outlives a
restart of the proxy; `pool` keeps connections from one task to the next. `row_blocks` reads rows many at a time.
`topic_log` is what is asked of a log, `topic_numbers` of one whose messages have numbers; `cluster` is for
several nodes.
"""
