"""MySQL's packets, read and written. Pure: no socket, no clock, no log.

`command_reader` cuts a client's bytes into commands. `requests` are the clients' packets, `replies` the proxy's.
`answer_walker` and `whole_answer` find the end of a server's answer; `collected_answer` decodes a small one. `login`
has the packets of a login, `compression` the compressed protocol, `text_values`, `binary_values` and `parameters` the
values in rows.
"""
