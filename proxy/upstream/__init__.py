"""The client's own connection to its database.

`base` is the contract. `embedded` fulfils it by a session of the embedded database, with `embedded_answers` and
`embedded_statements`; all else here is for a MySQL server. `relay` passes a command on, and `answer_relay` its answer
back, as bytes; `client_data` is what the client sends in between. `lazy` does so for a client that the proxy itself has
logged in, by the `lazy_connection` that `opener` opens at first need; `session_memory` makes a new connection what the
session was. `large_command` carries commands of more than 16 MiB.
"""
