"""Workers of queuegate's queues: receive, handle, ack in the handler's own transaction. It needs PyMySQL alone.

    from queuegate_worker import Worker

    def handle(message, transaction):
        transaction.execute("INSERT INTO sent (recipient) VALUES (%s)", (message.recipient,))

    Worker("mysql://root@127.0.0.1:3307/main", "emails", concurrency=4).run(handle)

`worker` is what a program makes, `command` the same as a command. A `run` has threads: the `receiver` polls for as
many messages as the `room` has free slots, each `slot` calls the handler (`handlers`) in a `transaction` and settles by
the `outcomes`, and the `heartbeat` renews the leases of what is `held`. `statements` makes their SQL, a `line` sends it
to an `address` (which `option_files` may tell), with a `backoff` where nobody answers. A `message` is what the handler
gets, `errors` what it may raise, `hooks` what metrics and traces hear.
"""

from queuegate_worker.address import Address
from queuegate_worker.errors import LeaseLost, Reject, Release, Retry, WorkerError
from queuegate_worker.hooks import Hooks
from queuegate_worker.message import Message
from queuegate_worker.transaction import AsyncTransaction, Transaction
from queuegate_worker.worker import Worker, run_together

__all__ = [
    "Address",
    "AsyncTransaction",
    "Hooks",
    "LeaseLost",
    "Message",
    "Reject",
    "Release",
    "Retry",
    "Transaction",
    "Worker",
    "WorkerError",
    "run_together",
]
