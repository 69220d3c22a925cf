"""Bytes in and out.

`client_socket` is a client's connection: it reads commands and writes packets, with TLS and compression where agreed,
and feeds the fast path without a task switch. `backend_socket` is its pair towards a MySQL server. `answer_writer` and
`client_output` write our own answers, never more than the client takes. `tcp` and `kernel` know the system's sockets.
"""
