"""Pages about messages: `message` shows one, `settling` acks messages, nacks them and so on (`message_verbs`),
`editing` changes one (`editable`), `dead_letters` shows dead letters by their errors, `dead_pieces` redrives or
discards many, `matching` acts on all that match a `search`, in pieces.

`message_rows` has rows as messages, for these and for the page of a queue.
"""
