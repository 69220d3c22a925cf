"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

`http` parses requests, `metrics_page` has the lines of both pages, `server` writes them between deliveries, and ties
all to a socket. The numbers come from the engine and from the other workers; nothing is counted here.
"""
