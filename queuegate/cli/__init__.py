"""The operator's command line: what `queuegate status`, `top`, `peek` and the others do against a proxy that runs.

It is a client as any other: `connecting` logs in with the values of `arguments` and of option files, and everything it
reads or changes goes through SQL, with names that `names` quotes. `commands` has the list and runs one; errors become
one line in `failures`. A command is a module: `top`, `peek`, and what is one statement each in `queue_commands`, what
needs no server in `local_commands`; `bench` is a package. What they print is made by pure functions: `tables` for text
in columns, `queue_figures` for what is known of a queue, `message_rows` for messages, `top_frame` for one screen of
`top`, which `top_screen` puts on the terminal.

Only `arguments` is loaded by commands of other kinds, so that these start as fast as before.
"""
