"""mode=queue as a member of a topic's consumer group: what the group has not done is claimed, acked and renewed."""

from __future__ import annotations

import pytest
from servers import Sql, Stream, wait_until
from spark_stand_in import Checkpoint, options_of

from spark_connector.errors import ConnectorError, OptionError, QueueError
from spark_connector.options import stream_read
from spark_connector.sources.schema import schema
from spark_connector.streaming import checkpoints
from spark_connector.streaming.claims import table_name

pytestmark = pytest.mark.long

DAY_NS = 86_400_000_000_000


@pytest.fixture
def topic(topic):
    """A topic with one group, `billing`, whose options are given."""

    def make(options: str = "", columns: str = "payload VARCHAR(256)") -> str:
        name: str = topic(columns, billing=f"START AT EARLIEST{f' WITH ({options})' if options else ''}")
        return name

    return make


@pytest.fixture
def member(begin):
    def make(topic, checkpoint=None, limit=20_000, **options):
        return begin(topic, checkpoint, limit, **{"group": "billing", **options})

    return make


def fill(sql: Sql, topic: str, count: int, first: int = 0) -> None:
    sql(f"INSERT INTO {topic} (payload) VALUES {', '.join(f'({n!r})' for n in map(str, range(first, first + count)))}")


def status(sql: Sql, topic: str) -> dict[str, int]:
    """What SHOW GROUPS says of the group."""
    (row,) = sql.named(f"SHOW GROUPS ON {topic} LIKE 'billing'")
    return row


def came(query) -> list[str]:
    return [payload for _, payload in query.batch()]


def numbers(*ranges: range) -> list[str]:
    return [str(number) for one in ranges for number in one]


def run_out(sql: Sql, queue: str) -> None:
    """Leases end now; their mark stays."""
    sql(f"UPDATE {queue} SET time_next = time_next - {DAY_NS} WHERE time_next % 1000 = 1")


def test_what_the_group_has_not_done_is_read_once_and_acked(member, sql, topic):
    name = topic()
    fill(sql, name, 250)
    query = member(name)
    assert query.plan()
    assert [payload for _, payload in query.run()] == numbers(range(250))
    assert sql.value(f"SELECT COUNT(*) FROM {name}_group_billing WHERE epoch = 1") == 250
    query.finish()
    assert not query.plan()
    found = status(sql, name)
    assert (found["unread"], found["offset"]) == (0, 250)
    assert sql.value(f"SELECT COUNT(*) FROM {found['queue']}") == 0
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 250  # a log keeps its messages
    assert sql.value(f"SELECT COUNT(*) FROM {table_name(found['queue'])}") == 0
    fill(sql, name, 5, first=250)
    assert came(query) == numbers(range(250, 255))


def test_the_group_is_named_in_either_way(member, begin, sql, topic):
    name = topic()
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = member(name, checkpoint, limit=2)
    assert came(query) == ["0", "1"]
    query.kill()
    again = begin(f"{name}_group_billing", checkpoint, limit=2)
    assert came(again) == ["2", "3"]
    again.kill()
    assert came(member(name, checkpoint)) == ["4"]


def test_its_columns_are_those_of_the_groups_queue(gate, topic):
    name = topic()
    found = schema(options_of(gate, name, group="billing"))
    assert found == schema(options_of(gate, f"{name}_group_billing"))
    assert "`id` bigint NOT NULL" in found and "`epoch` bigint" in found and "queuegate_sought" not in found


def test_beside_another_member_and_another_query_each_message_goes_to_one(member, gate, sql, topic):
    name = topic()
    fill(sql, name, 60)
    one, other = member(name, limit=20), member(name, limit=20)
    assert one.plan() and other.plan()
    with Stream(
        gate, f"SELECT id, payload FROM STREAM {name} WITH (group = 'billing', prefetch = 20) LIMIT 20"
    ) as third:
        rows = third.wait(20)
    found = [*one.run(), *other.run(), *rows]
    assert sorted(int(payload) for _, payload in found) == list(range(60))


def test_other_groups_and_tails_have_everything_besides(member, begin, sql, topic):
    name = topic()
    sql(f"CREATE GROUP audit ON {name} START AT EARLIEST")
    fill(sql, name, 5)
    assert came(member(name)) == numbers(range(5))
    assert came(member(name, group="audit")) == numbers(range(5))
    assert came(begin(name, mode="tail", startingOffsets="earliest")) == numbers(range(5))


def test_more_than_one_claim_and_a_bound_in_bytes(member, sql, topic, monkeypatch):
    monkeypatch.setattr("spark_connector.streaming.consumer.CLAIM_MAX", 10)
    name = topic()
    fill(sql, name, 25)
    query = member(name, limit=None)
    assert len(query.batch()) == 25
    assert query.checkpoint.offsets[-1]["seq"] == 3
    sql(f"INSERT INTO {name} (payload) VALUES (REPEAT('x', 100)), (REPEAT('y', 100)), (REPEAT('z', 100))")
    small = member(name, query.checkpoint, maxBytesPerTrigger=250)
    assert [len(small.batch()) for _ in range(3)] == [2, 1, 0]


def test_available_now_ends_with_what_was_there_at_its_begin(member, sql, topic, tick):
    name = topic()
    fill(sql, name, 30)
    query = member(name, limit=20)
    query.source.prepare_available_now()
    tick()
    fill(sql, name, 5, first=30)
    assert [payload for _, payload in query.drain()] == numbers(range(30))
    assert status(sql, name)["offset"] >= 30
    assert came(member(name)) == numbers(range(30, 35))


# --- restarts, retries


def test_a_batch_that_was_logged_and_not_done_is_the_same_after_a_restart(member, sql, topic):
    name = topic()
    fill(sql, name, 20)
    query = member(name, limit=10)
    assert query.plan()
    before = query.run()
    query.kill()
    fill(sql, name, 5, first=20)
    again = member(name, query.checkpoint, limit=10)
    assert again.plan()
    assert again.run() == before
    again.finish()
    assert came(again) == numbers(range(10, 20))


def test_a_claim_that_was_not_logged_is_taken_up(member, sql, topic):
    name = topic()
    fill(sql, name, 10)
    query = member(name)
    first = query.source.initial_offset()
    query.checkpoint.offsets.append(first)
    query.checkpoint.done = 1
    query.source.latest_offset(first, 10)
    query.kill()
    assert came(member(name, query.checkpoint)) == numbers(range(10))


def test_leases_are_renewed_and_run_out_where_nobody_renews(member, sql, topic):
    name = topic()
    fill(sql, name, 3)
    query = member(name, leaseSeconds=3600)
    assert query.plan()
    queue = status(sql, name)["queue"]
    before = sql.value(f"SELECT MIN(time_next) FROM {queue}")
    sql(f"UPDATE {queue} SET time_next = time_next - 3000000000000")
    source = query.source
    assert source._connection.run(source._consumer._maker.renew) == 3
    assert sql.value(f"SELECT MIN(time_next) FROM {queue}") > before - 3_000_000_000_000
    query.kill()
    run_out(sql, queue)
    other = member(name)
    wait_until(lambda: other.batch() is not None and len(other.out) == 3, 60, "what nobody holds")


def test_a_message_that_no_job_survives_ends_among_the_groups_dead_letters(member, sql, topic):
    name = topic("max_attempts = 2")
    fill(sql, name, 3)
    query = member(name)
    for _ in range(2):
        assert query.plan()
        assert len(query.run()) == 3
        query.kill()
        query = member(name, query.checkpoint)
    assert query.plan()
    assert query.run() == []
    query.finish()
    assert not query.plan()
    wait_until(lambda: status(sql, name)["dead"] == 3, 60, "the dead letters")
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 3


def test_what_is_rejected_by_hand_is_left_out_of_the_repetition(member, sql, topic):
    name = topic()
    fill(sql, name, 3)
    query = member(name)
    assert query.plan()
    query.kill()
    sql(f"REJECT {name} 2 GROUP billing REASON 'no'")
    again = member(name, query.checkpoint)
    assert again.plan()
    assert [payload for _, payload in again.run()] == ["0", "2"]
    again.finish()
    assert not again.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {name}_group_billing WHERE time_next % 1000 = 1") == 0


def test_order_and_pause_of_the_group_hold(member, sql, topic):
    name = topic("order_key = 'k'", "k INT, payload VARCHAR(100)")
    sql(f"INSERT INTO {name} (k, payload) VALUES (1, 'a1'), (1, 'a2'), (2, 'b1')")
    query = member(name)
    assert came(query) == ["a1", "b1"]
    sql(f"ALTER GROUP billing ON {name} PAUSE")
    assert came(query) == []
    sql(f"ALTER GROUP billing ON {name} RESUME")
    assert came(query) == ["a2"]


# --- seeks


def test_a_seek_back_brings_everything_once_more(member, sql, topic):
    name = topic()
    fill(sql, name, 10)
    query = member(name, limit=6)
    assert came(query) == numbers(range(6))  # done, and not acked yet
    sql(f"ALTER GROUP billing ON {name} SEEK TO EARLIEST")
    assert came(query) + came(query) == numbers(range(10))
    assert not query.plan()
    assert status(sql, name)["unread"] == 0


def test_a_seek_while_a_batch_runs_is_not_undone_by_its_ack(member, sql, topic):
    name = topic()
    fill(sql, name, 6)
    query = member(name)
    assert query.plan()
    assert len(query.run()) == 6
    sql(f"ALTER GROUP billing ON {name} SEEK TO OFFSET 3")
    query.finish()
    assert came(query) == numbers(range(2, 6))


# --- how it stands, and refusals


def test_the_backlog_is_what_the_group_has_not_read_as_well(member, gate, sql, topic):
    name = topic()
    fill(sql, name, 30)
    query = member(name, limit=10)
    assert len(query.batch()) == 10
    report = {"queue": f"{gate.database}.{name}_group_billing", "acked": 0, "leasesLost": 0, "endedByOthers": 0}
    expected = {**report, "backlog": 20, "claimed": 10}
    wait_until(lambda: query.source.report() == expected, 60, "the counts, which the proxy renews each second")


def refusal(make, kind=QueueError) -> str:
    with pytest.raises(kind) as caught:
        make().plan()
    return str(caught.value)


def test_refusals(begin, gate, topic, queue):
    name, plain = topic(), queue()
    read = f"{name} is a topic: read all of it with mode=tail, or what a consumer group has not done yet with"
    assert read in refusal(lambda: begin(name))
    for group in ("bil_ing", "%", "b'"):
        told = refusal(lambda group=group: begin(name, group=group))
        assert f"topic {name} has no consumer group {group!r}; it has billing" in told
    assert "has no consumer groups, only topics have" in refusal(lambda: begin(plain, group="billing"))
    assert "there is no queue 'nowhere'" in refusal(lambda: begin("nowhere", group="billing"))
    tail = refusal(lambda: begin(f"{name}_group_billing", mode="tail", startingOffsets="earliest"))
    assert f"read topic {name} with mode=tail" in tail
    with pytest.raises(OptionError, match="option group has no meaning with mode=tail"):
        stream_read({**options_of(gate, name), "group": "billing", "mode": "tail"})
    with pytest.raises(OptionError, match="option group is the name of a consumer group"):
        stream_read({**options_of(gate, name), "group": " "})


def test_a_group_that_is_dropped_ends_the_query(member, sql, topic):
    name = topic()
    fill(sql, name, 3)
    query = member(name)
    assert query.batch()
    sql(f"DROP GROUP billing ON {name}")
    with pytest.raises(ConnectorError):
        query.plan()


def test_an_idle_query_sends_one_statement_a_look(member, sql, topic, sent):
    name = topic()
    fill(sql, name, 1)
    query = member(name)
    query.drain()
    del sent[:]
    for _ in range(3):
        assert not query.plan()
    assert len(sent) == 3


@pytest.mark.parametrize("spelled", ["group", "queue"])
def test_the_rights_that_a_member_needs(gate, sql, topic, begin, spelled):
    """On the group's queue and on the two tables beside it; none on the topic, however the group is named."""
    if gate.embedded:
        pytest.skip("the embedded backend has one account here")
    name = topic()
    fill(sql, name, 3)
    owner = begin(name, group="billing")  # has made these tables
    owner.drain()
    user, database = f"member_{spelled}@'127.0.0.1'", gate.database
    queue, claims = f"{name}_group_billing", table_name(f"{name}_group_billing")
    sql(f"CREATE OR REPLACE USER {user} IDENTIFIED BY 'secret'")
    sql(f"GRANT SELECT, UPDATE, DELETE ON {database}.{queue} TO {user}")
    for table in (claims, checkpoints.table_name(queue)):
        sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.{table} TO {user}")
    fill(sql, name, 3, first=3)
    as_user = {"user": user.partition("@")[0], "password": "secret"}
    query = begin(name, group="billing", **as_user) if spelled == "group" else begin(queue, **as_user)
    assert came(query) == numbers(range(3, 6))
    assert not query.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {queue}") == 0
    report = query.source.report()
    assert (report["acked"], report["backlog"], report["claimed"]) == (3, 0, 0)
