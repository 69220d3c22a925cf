"""MySQL as its clients see it: one source for the server, the worker, the Celery transport and the Spark connector.

`packets` parses headers, numbers, rows and definitions, `answers` cuts whole answers out of a socket's bytes; both do
no I/O. `driver` has each access to what PyMySQL keeps for itself, and `option_files` finds where a program connects, as
the mysql client does.

Every wheel has a copy below its own name, and a checkout a link there (docs/adr/0020-one-source-for-clients.md). So a
module here is loaded under several names: it imports its neighbours relatively, and nothing else of this repository.
"""
