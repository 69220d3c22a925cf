"""What a job enqueues: told as done where it is done, and with all columns of the user."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
import write_calls
from servers import Gate, Sql, wait_until

from spark_connector.jobs.archive.own_columns import content, declared
from spark_connector.jobs.console import SILENT
from spark_connector.jobs.publishing import publish

TAKEN = "source VARCHAR(20), attempts INT, time_dead BIGINT, payload VARCHAR(20)"


class Writer:
    """A DataFrame's writer: the rows are written, and the proxy is started again before the job goes on."""

    def __init__(self, gate: Gate, queue: str) -> None:
        self._gate, self._queue, self._options = gate, queue, dict[str, str]()

    def format(self, _: str) -> Writer:
        return self

    def mode(self, _: str) -> Writer:
        return self

    def options(self, **options: str) -> Writer:
        self._options = {name: options[name] for name in ("txnAppId", "txnVersion")}
        return self

    def save(self) -> None:
        write_calls.append(self._gate, self._queue, write_calls.messages(0, 3), **self._options)
        self._gate.kill()
        self._gate.start()


def test_a_proxy_that_is_started_again_during_the_write_does_not_make_it_a_failure(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (n BIGINT, payload VARCHAR(20))")
    sql.close()
    options = {"host": "127.0.0.1", "port": str(gate.port), "user": "root", "database": gate.database, "queue": "q"}
    rows = MagicMock(write=Writer(gate, "q"))
    done = publish(MagicMock(), rows, options, job="enqueue", run=None, key=None, console=SILENT)
    assert (done.messages, done.repeated) == (3, False)


def test_columns_of_the_user_are_copied_whatever_their_names_are(sql, queue):
    name = queue(TAKEN)
    names = sql.column(f"SHOW COLUMNS FROM {name}")
    assert content(names) == ["priority", "source", "attempts", "time_dead", "payload"]


@pytest.mark.parametrize(
    ("columns", "own"), [("payload VARCHAR(20)", ["payload"]), (TAKEN, ["source", "attempts", "time_dead", "payload"])]
)
def test_what_a_dead_letter_queue_adds_is_not_the_users(sql, queue, columns, own):
    name = queue(columns)
    sql(f"INSERT INTO {name} (payload) VALUES ('a')")
    sql(f"REJECT {name} WHERE payload = 'a'")
    wait_until(lambda: f"{name}_dead" in sql.column("SHOW QUEUES"), what="the dead letter")
    assert declared(sql.column(f"SHOW COLUMNS FROM {name}_dead")) == own
