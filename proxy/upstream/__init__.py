"""The client's own connection to its database.

`base` is the contract. `embedded` fulfils it by a session of the embedded database, all else here is for a MySQL
server. `relay` passes a command on and its answer back, as bytes; what it is at is its `relay_mode`. `lazy` does so for
a client that the proxy itself has logged in, by connections that `opener` opens at first need; `session_memory` makes a
new connection what the session was. `large_command` carries commands of more than 16 MiB.
"""
