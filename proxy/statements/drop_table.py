"""DROP TABLE and TRUNCATE TABLE of a queue: refused, unless the configuration or the session allows it.

Programs without knowledge of queues send them routinely: an overwrite from Spark, a test suite that tidies
up, a dump that is read in. DROP QUEUE and TRUNCATE QUEUE show that deleting the messages is intended.
"""

from __future__ import annotations

from collections.abc import Container

from engine.model.queue import QueueName
from proxy.errors import ProxyError
from proxy.session.session import ClientSession
from proxy.upstream.base import collected
from rewriter.plan import Passthrough, Plan

VARIABLE = "@queuegate_allow_drop_table"
_YES = (b"1", b"on", b"true", b"yes")
_REFUSED = 1347  # ER_WRONG_OBJECT: 'x' is not BASE TABLE


async def check_removal(session: ClientSession, plan: Plan, topics: Container[QueueName]) -> None:
    """Nothing where what the plan drops or empties may go.

    The user variable is read when it matters: so it applies however it was set, and ends with the session.

    Raises:
        ProxyError: 1347, with what to do instead.
    """
    queues = plan.effects.removes if isinstance(plan, Passthrough) else frozenset()
    if not queues or await _is_allowed(session):
        return
    queue = min(queues)
    if queue in topics:
        raise ProxyError(
            _REFUSED,
            f"'{queue}' is not an ordinary table but a topic; use DROP TOPIC {queue.table}, or DELETE FROM"
            f" {queue.table}. TRUNCATE would begin its offsets anew, and groups would miss what comes then",
        )
    raise ProxyError(
        _REFUSED,
        f"'{queue}' is not an ordinary table but a queue; use DROP QUEUE {queue.table} or TRUNCATE QUEUE {queue.table}."
        f" DROP TABLE and TRUNCATE TABLE work after SET {VARIABLE} = 1, or with queues.allow_drop_table in the proxy's"
        " configuration",
    )


async def _is_allowed(session: ClientSession) -> bool:
    (value,) = (await collected(session.upstream, f"SELECT {VARIABLE}")).row(1)
    return value is not None and value.lower() in _YES
