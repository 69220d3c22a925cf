"""The program: its command line, what it does as a process, and how its parts are put together.

`command_line` reads the arguments. `process` serves, checks a configuration or hashes a password; `app` makes a proxy
of a configuration, with its engine and its connection to the database. `cli` has the operator's commands, which are
clients of a proxy that runs.

The packages console, proxy, embedded, rewriter and engine have names that others use, too. In a wheel they are in
`queuegate/_server`, which is on the path of the server's own process only (`__main__`). In a checkout they are
alongside this folder.
"""
