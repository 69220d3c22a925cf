"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

`http` parses requests, `metrics_page` and `counters_page` write the pages, `server` ties both to a socket. The numbers
come from the engine and from the other workers; nothing is counted here.
"""
