"""`queuegate bench`: how many messages a second a proxy that runs takes and hands out, and how fast one arrives.

`command` makes a queue of its own, has its parts run, and drops it, whatever happens. A part is a number of `crew`
processes, one for each producer and consumer, which do what `clients` says. `figures` judges what they tell: rates,
latencies, and what was lost or came twice; it is pure.

Processes, and not threads: a client in Python takes about as much of a processor as the proxy does for it, and threads
of one interpreter share one.
"""
