"""MySQL's packets as a server and its proxy read and write them. Pure: no socket, no clock, no log.

`errors` are what clients are sent as ERR packets. What the clients of a server need of the protocol is in mysql_client.

`command_reader` cuts a client's bytes into commands. `requests` are the clients' packets, `replies` the proxy's.
`answer_walker` and `whole_answer` find the end of a server's answer; `collected_answer` decodes a small one. `login`
has the packets of a login, `compression` the compressed protocol, `text_values`, `binary_values` and `parameters` the
values in rows.
"""
