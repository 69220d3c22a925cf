"""`python -m benchmarks scale`: how queuegate grows with queues, receivers, waiting messages, bodies and proxies.

Each part is a module of its own: queues.py, receivers.py, waiting.py, bodies.py, proxies.py. sites.py starts databases
and proxies, clients.py has what the clients do, plots.py draws the report, run.py does all of it.
"""
