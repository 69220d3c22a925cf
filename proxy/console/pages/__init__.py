"""The pages: a module for each thing that one looks at, with what it reads, what it changes, and its routes.

`overview` lists queues and topics, `queue` shows one with its messages and pauses it, `message` one message,
`create_queue` makes a queue, `settling` acks messages, nacks them and so on (`message_verbs`), `editing` changes one
(`editable`), `dead_letters` shows dead letters by their errors, `dead_pieces` redrives or discards many of them. They
share `figures` (what is known of a queue), `known_queues` (which there are),
`message_rows` (rows as messages) and `keyset` (pages of rows by key). What a page reads is a frozen value.
"""
