"""Bytes in and out.

`client_socket` is a client's connection: it reads commands and feeds the fast path without a task switch;
`client_output` is its writing half, `client_timers` what bounds it in time, and `layers` begins TLS and compression on
it where agreed. `backend_socket` is its pair towards a MySQL server. `answer_writer` writes our own answers, never more
than the client takes. `tcp` and `kernel` know the system's sockets.
"""
