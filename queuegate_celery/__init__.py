"""Queues of queuegate as a broker of Celery, and of all that is built on Kombu.

    import queuegate_celery                                                     # in the module of the Celery app
    app = Celery("shop", broker="queuegate://user:password@host:3307/database")

The import makes the URL's scheme known to Kombu, which has no entry point for transports. publishing_on has tasks
enqueued in a transaction of the application's own. It speaks SQL to the proxy, and needs nothing but Kombu and
PyMySQL.

A task goes through it so: `channel` takes what Kombu publishes, `messages` makes a row of it, `exchanges` says in which
queues, by the rules of `routing`, and `line` runs the INSERT. At a worker `sources` ask for messages and read them as
`answers` takes them from the bytes that come, `link` hands them to Celery from its event loop and sends acks, `held`
knows what is not acked, and `renewal` prolongs its leases. `transport` is what Kombu calls first, `queues` creates,
counts and drops queues, `transactions` has publishing_on. `settings` has the address and the options, `sql` quotes
names, and `errors` turns MySQL's errors into those that Kombu and Celery know.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

from queuegate_celery.transactions import publishing_on

TRANSPORT_ALIASES.setdefault("queuegate", "queuegate_celery.transport:Transport")

__all__ = ["publishing_on"]
