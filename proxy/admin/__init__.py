"""The admin port: /metrics for Prometheus, /healthz and /readyz for supervisors.

`http` parses requests, `metrics_page` writes the page, `server` ties both to a socket. The numbers come from the engine
and from the other workers; nothing is counted here.
"""
