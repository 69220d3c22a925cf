"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

`http` parses requests, `metrics_page` writes the page for Prometheus, `server` that for the console, and ties both to a
socket. The numbers come from the engine and from the other workers; nothing is counted here.
"""
