"""The pages: a module for each thing that one looks at, with what it reads, what it changes, and its routes.

`overview` lists queues and topics, `queue` shows one with its messages and pauses it, `create_queue` makes one; the
folder `messages` has what is about messages and dead letters. Of a queue, `receivers` shows who receives and ends a
stream, `schedules` what recurs, and `queue_options` its options, which it changes. `topic` shows consumer groups,
`seek` moves one, `event_groups` has what waits for what, `system` the database, its proxies and connections. They share
`figures` (what is known of a queue), `visible_queues` (which there are) and `keyset` (pages of rows by key). What a
page reads is a frozen value.
"""
