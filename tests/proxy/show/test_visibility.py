"""Of which queues a session may know on a Vitess, some of whose shards have no primary."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.model.errors import BackendError
from engine.model.keyspaces import Keyspaces
from engine.model.queue import QueueName
from mysql_wire.outcome import Collected
from proxy.show.visibility import Visibility

DEAD = BackendError("target: many.80-.primary: no healthy tablet available for 'keyspace:\"many\"'", 1105)
DENIED = BackendError("SELECT command denied", 1142, "42000")


@pytest.mark.parametrize(
    ("failures", "seen", "tries"),
    [((), True, 1), ((DEAD, DEAD, DEAD), True, 4), ((DENIED,), False, 1), ((DEAD,) * 100, False, 10)],
)
async def test_a_shard_that_answers_is_looked_for(failures, seen, tries):
    """A vtgate sends such a query to any one shard of the keyspace."""
    session = SimpleNamespace(rights=None)
    keyspaces = Keyspaces({"many": ("-80", "80-"), "one": ("-",)})
    engine = SimpleNamespace(catalog=SimpleNamespace(keyspaces=keyspaces))
    visibility, sent = Visibility(session, engine, SimpleNamespace(accounts=True)), []

    async def collect(sql):
        keyspace = "many" if "'many'" in sql else "one"
        sent.append(keyspace)
        if keyspace == "many" and sent.count("many") <= len(failures):
            raise failures[sent.count("many") - 1]
        return Collected((), ((b"vt_" + keyspace.encode(), b"q"),))

    visibility.collect = collect
    can_see = await visibility.can_see()
    assert can_see(QueueName("many", "q")) == seen and can_see(QueueName("one", "q"))
    assert sent.count("many") == tries and sent.count("one") == 1
