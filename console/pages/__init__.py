"""The pages: a module for each thing that one looks at, with what it reads, what it changes, and its routes.

`overview` lists queues and topics and what is wrong with them, `queue` shows one with its messages and pauses it,
`create_queue` makes one or a topic, `publish` puts a message into it, `ending` purges or drops it; the folder
`messages` has what is about messages and dead letters. `receivers` shows who receives, from a queue or from all, and
ends a stream, `schedules` and `create_schedule` have what recurs, and `queue_options` a queue's options, which it
changes. `topic` shows consumer groups, `create_group` makes one, `seek` moves one, `event_groups` has what waits for
what, `system` the database, its proxies and connections. They share `figures` (what is known of a queue), `problems`
(what is wrong with it, in one line), `visible_queues` (which there are) and `keyset` (pages of rows by key). What a
page reads is a frozen value.
"""
