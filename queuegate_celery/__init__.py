"""Queues of queuegate as a broker of Celery, and of everything else that uses Kombu.

    import queuegate_celery                                                     # in the module of the Celery app
    app = Celery("shop", broker="queuegate://user:password@host:3307/database")

The import registers the URL's scheme with Kombu, which has no entry point for transports. With publishing_on, tasks are
enqueued in the application's own transaction. The package sends SQL to the proxy, and needs only Kombu and PyMySQL.

How a task goes through it: `channel` receives what Kombu publishes, `messages` converts it to a row, `exchanges` finds
the queues by the rules of AMQP, and `connection` runs the INSERT. In a worker `sources` poll for messages and
parse the bytes with `mysql_client`, `link` passes the messages to Celery from its event loop, `settlement` sends acks,
`unsettled` contains the deliveries that are not acked, and `renewal` renews their leases. `transport` is what Kombu
calls first, `queues` creates, counts and drops queues, `transactions` contains publishing_on. `settings` contains the
address and the options, and `errors` converts MySQL's errors to those of AMQP, which Kombu and Celery handle.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

from queuegate_celery.transactions import publishing_on

TRANSPORT_ALIASES.setdefault("queuegate", "queuegate_celery.transport:Transport")

__all__ = ["publishing_on"]
