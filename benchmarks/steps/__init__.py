"""`python -m benchmarks steps`: what a message costs, and each of its steps; `make profile`: in which functions.

run        the cases, in turns, on each backend; the report
loads      what the clients do: a statement again and again, acks, a lone message, a drain
counters   what a stretch of time has cost the proxy, its threads and the database
sockets    how often a process has written to a port, by the kernel's count
profile    py-spy beside one of the loads
stacks     collapsed stacks: reading, sums by function
flame      collapsed stacks as a picture
"""
