"""`queuegate bench`: how many messages a second a proxy that runs takes and hands out, and how fast one arrives.

`command` makes a queue of its own, has its parts run, and drops it, whatever happens. A part is a set of
`client_processes` processes, one for each producer and consumer, which run `clients`. `figures` evaluates
their results: rates, latencies, and what was lost or came twice; it is pure.

Processes, and not threads: a client in Python takes about as much of a processor as the proxy does for it, and threads
of one interpreter share one.
"""
