"""A page for probes: `GET /healthz` answers 200 while every process receives, and 503 otherwise, with a report."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from queuegate_worker.errors import WorkerError

PATH = "/healthz"
_REQUEST_SECONDS = 5.0


def parse_listen(text: str) -> tuple[str, int]:
    """`HOST:PORT`. Raises WorkerError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise WorkerError(f"--health is {text!r}; it is HOST:PORT, such as 127.0.0.1:9001")
    return host.strip("[]"), int(port)


@contextmanager
def served(listen: tuple[str, int], report: Callable[[], dict[str, Any]]) -> Iterator[int]:
    """Serve the page while the block runs; its port. `report` has a key `healthy`. Raises OSError if the address cannot
    be used."""
    server = (_Server6 if ":" in listen[0] else _Server)(listen, _handler(report))
    thread = threading.Thread(target=server.serve_forever, name="queuegate-health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the worker."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(report: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS
        server_version, sys_version = "queuegate-work", ""

        def do_GET(self) -> None:
            known = self.path.split("?")[0] == PATH
            content = report() if known else {"error": f"the page is {PATH}"}
            body = json.dumps(content).encode() + b"\n"
            self.send_response(404 if not known else 200 if content["healthy"] else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Probes are not logged."""

    return Handler
