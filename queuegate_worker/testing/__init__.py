"""For the tests of applications: without a server by an `outbox`, or with a `server` that is thrown away afterwards.

The `plugin` makes both fixtures of pytest.
"""

from queuegate_worker.testing.outbox import Outbox, Sent
from queuegate_worker.testing.server import Server

__all__ = ["Outbox", "Sent", "Server"]
