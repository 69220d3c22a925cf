"""What somebody writes into the queue's own columns costs his own message at most: the query reads the others."""

from __future__ import annotations

import pytest

BIGINT = (-(1 << 63), (1 << 63) - 1)
KINDS = [
    ("BIGINT", BIGINT[1]),
    ("BIGINT", BIGINT[1] - 1),
    ("BIGINT", BIGINT[0]),
    ("BIGINT", -1),
    ("TINYINT", 127),
    ("TINYINT UNSIGNED", 255),
]


@pytest.mark.parametrize(("kind", "epoch"), KINDS)
@pytest.mark.parametrize("attempts", [0, 5])
def test_an_epoch_at_the_end_of_its_type(begin, sql, queue, kind, epoch, attempts):
    name = queue(f"payload VARCHAR(256), epoch {kind} NOT NULL DEFAULT 0", max_attempts=attempts)
    sql(f"INSERT INTO {name} (payload, epoch) VALUES ('strange', {epoch}), ('plain', 0)")
    query = begin(name)
    read = [payload for _, payload in query.batch()]
    assert read == (["plain"] if attempts and epoch > 5 else ["strange", "plain"])
    assert not query.plan()


@pytest.mark.parametrize(("kind", "epoch"), KINDS)
def test_a_batch_with_such_a_message_is_repeated(begin, sql, queue, kind, epoch):
    name = queue(f"payload VARCHAR(256), epoch {kind} NOT NULL DEFAULT 0")
    sql(f"INSERT INTO {name} (payload, epoch) VALUES ('strange', {epoch}), ('plain', 0)")
    query = begin(name)
    assert query.plan()
    again = begin(name, checkpoint=query.checkpoint)
    assert [payload for _, payload in again.run()] == ["strange", "plain"]


@pytest.mark.parametrize("column", ["time_scheduled", "time_next", "time_created", "time_acked"])
def test_times_at_the_ends_of_their_type(begin, sql, queue, column):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('plain')")
    for value in (BIGINT[0], -1, 0, BIGINT[1] - 2, BIGINT[1] - 1, BIGINT[1]):
        sql(f"INSERT INTO {name} (payload, {column}) VALUES ('strange', {value})")
    query = begin(name)
    assert "plain" in [payload for _, payload in query.batch()]
    query.plan()
    assert sql.value(f"SELECT state FROM {name} WHERE payload = 'plain'") == "acked"
