"""Workers of queuegate's queues: receive, handle, ack in the handler's own transaction. It needs PyMySQL alone.

    from queuegate_worker import Worker

    def handle(message, transaction):
        transaction.execute("INSERT INTO sent (recipient) VALUES (%s)", (message.recipient,))

    Worker("mysql://root@127.0.0.1:3307/main", "emails", concurrency=4).run(handle)

A program sends messages by the classes of `sending`, and runs functions as `tasks`; `testing` is for its tests.

A program creates a `worker`; `command` does the same from the command line, in `processes` of its own if asked to. A
`run` has threads. The `receiver` polls for as many messages as there are `free_slots`. Each `slot` calls the handler
(`handlers`) in a `transaction` and settles the messages by the `outcomes`; an `acker` does that for many. All have
`shared` parts. The `heartbeat` renews the leases of the messages in flight. `statements` creates the SQL; a
`connection` sends it to an `address` (from a URL or, in `command`, from option files), and reconnects with a `backoff`.
A `message` is the handler's argument, `errors` are what it may raise, `hooks` are for metrics and traces.
`mysql_client` is what it shares with the other clients.
"""

from queuegate_worker.address import Address
from queuegate_worker.errors import LeaseLost, Reject, Release, Retry, TransactionEnded, WorkerError
from queuegate_worker.hooks import Hooks
from queuegate_worker.message import Message
from queuegate_worker.sending.queue import Queue
from queuegate_worker.tasks.task import Task, TaskContext, task
from queuegate_worker.transaction import AsyncTransaction, Transaction
from queuegate_worker.worker import Worker, run_together

__all__ = [
    "Address",
    "AsyncTransaction",
    "Hooks",
    "LeaseLost",
    "Message",
    "Queue",
    "Reject",
    "Release",
    "Retry",
    "Task",
    "TaskContext",
    "Transaction",
    "TransactionEnded",
    "Worker",
    "WorkerError",
    "run_together",
    "task",
]
