"""mode=queue without Spark: claims, replays, acks and leases over a real gate, by the calls that Spark makes."""

from __future__ import annotations

import math
import uuid

import pytest
from servers import Sql, Stream, wait_until
from spark_stand_in import Checkpoint

from spark_connector.errors import LeaseLostError, QueueError, SchemaError
from spark_connector.streaming.claims import table_name
from spark_connector.streaming.due import Due

pytestmark = pytest.mark.long

LATER_NS = 3_600_000_000_000


def fill(sql: Sql, queue: str, count: int, first: int = 0) -> None:
    for low in range(first, first + count, 5000):
        rows = ", ".join(f"('m{number}')" for number in range(low, min(low + 5000, first + count)))
        sql(f"INSERT INTO {queue} (payload) VALUES {rows}")


def states(sql: Sql, queue: str) -> dict[str, int]:
    return {str(state): int(count) for state, count in sql.rows(f"SELECT state, COUNT(*) FROM {queue} GROUP BY state")}


def claims(sql: Sql, queue: str) -> int:
    return int(sql.value(f"SELECT COUNT(*) FROM {table_name(queue)}"))


def run_out(sql: Sql, queue: str) -> None:
    """Leases end now; their mark stays."""
    sql(f"UPDATE {queue} SET time_next = time_next - {LATER_NS} WHERE time_acked IS NULL AND time_next % 1000 = 1")


def take(sql: Sql, queue: str) -> list[int]:
    """Another consumer receives all that is due."""
    return [int(id_) for id_ in sql.column(f"SELECT id FROM STREAM {queue} WITH (prefetch = 1000) LIMIT 1000 NOWAIT")]


# --- the life of a micro-batch


def test_what_is_due_is_read_once_and_acked_when_the_next_batch_is_asked_for(begin, sql, queue):
    name = queue()
    fill(sql, name, 250)
    query = begin(name)
    assert query.plan()
    assert states(sql, name) == {"fired": 250}
    assert [payload for _, payload in query.run()] == [f"m{number}" for number in range(250)]
    query.finish()
    assert states(sql, name) == {"fired": 250}
    assert not query.plan()
    assert states(sql, name) == {"acked": 250}
    assert claims(sql, name) == 0


def test_commit_acks_too_and_once(begin, sql, queue):
    name = queue()
    fill(sql, name, 3)
    query = begin(name)
    assert query.batch()
    for _ in range(2):
        query.source.commit(query.checkpoint.offsets[-1])
    assert states(sql, name) == {"acked": 3}
    assert not query.plan()


def test_a_batch_has_as_many_messages_as_the_limit_says(begin, sql, queue):
    name = queue()
    fill(sql, name, 25)
    query = begin(name, limit=10)
    assert [len(query.batch()) for _ in range(4)] == [10, 10, 5, 0]


def test_all_there_is_comes_as_several_claims_in_one_batch(begin, sql, queue, monkeypatch):
    monkeypatch.setattr("spark_connector.streaming.consumer.CLAIM_MAX", 10)
    name = queue()
    fill(sql, name, 25)
    query = begin(name, limit=None, numPartitions=2)
    assert query.plan()
    assert query.checkpoint.offsets[-1]["seq"] == 3
    assert [len(part) for part in ([*p.runs] for p in query.parts())] == [2, 2]
    assert [payload for _, payload in query.run()] == [f"m{number}" for number in range(25)]
    query.finish()
    assert not query.plan()
    assert states(sql, name) == {"acked": 25}


def test_what_one_query_claimed_no_other_does(begin, sql, queue):
    name = queue()
    fill(sql, name, 30)
    one, other = begin(name, limit=20), begin(name, limit=20)
    assert one.plan() and other.plan()
    first, second = one.run(), other.run()
    assert (len(first), len(second)) == (20, 10)
    assert not {id_ for id_, _ in first} & {id_ for id_, _ in second}


def test_a_message_that_a_client_has_locked_is_passed_over(begin, sql, queue, connect, place):
    if place == "embedded":
        pytest.skip("a writer has the embedded database to itself")
    name = queue()
    fill(sql, name, 3)
    client = connect(autocommit=False)
    client(f"UPDATE {name} SET payload = 'mine' WHERE id = {sql.value(f'SELECT MIN(id) + 1 FROM {name}')}")
    query = begin(name)
    assert [payload for _, payload in query.batch()] == ["m0", "m2"]
    client.connection.commit()
    assert [payload for _, payload in query.batch()] == ["mine"]


# --- restarts


def test_a_batch_that_was_logged_and_not_done_is_the_same_after_a_restart(begin, sql, queue):
    name = queue()
    fill(sql, name, 100)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint, limit=50)
    assert query.plan()
    before = query.run()
    query.kill()
    sql(f"ACK {name} WHERE payload IN ('m1', 'm2')")
    again = begin(name, checkpoint, limit=50)
    assert again.plan()
    assert again.run() == before
    again.finish()
    assert [payload for _, payload in again.batch()] == [f"m{number}" for number in range(50, 100)]
    assert not again.plan()
    assert states(sql, name) == {"acked": 100}


def test_what_was_done_before_a_long_absence_is_acked_and_not_claimed_again(begin, sql, queue):
    name = queue()
    fill(sql, name, 50)
    query = begin(name)
    assert query.batch()
    query.kill()
    run_out(sql, name)
    again = begin(name, query.checkpoint)
    assert not again.plan()
    assert states(sql, name) == {"acked": 50}
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [1]


def test_a_claim_that_was_not_logged_is_taken_up_after_a_restart(begin, sql, queue):
    name = queue()
    fill(sql, name, 20)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint, limit=10)
    assert query.batch()
    assert query.plan()
    lost = checkpoint.offsets.pop()  # the process is killed before Spark logs it
    query.kill()
    fill(sql, name, 20, first=100)
    again = begin(name, checkpoint, limit=10)
    assert again.plan()
    assert checkpoint.offsets[-1] == lost
    assert [payload for _, payload in again.run()] == [f"m{number}" for number in range(10, 20)]


def test_what_was_claimed_before_the_first_offset_was_logged_comes_back_when_its_lease_ends(begin, sql, queue):
    name = queue()
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint)
    assert query.plan()
    checkpoint.offsets.clear()
    query.kill()
    again = begin(name, checkpoint)
    assert not again.plan()
    run_out(sql, name)
    assert len(again.batch()) == 5
    assert not again.plan()
    assert states(sql, name) == {"acked": 5}


def test_claims_of_groups_that_never_came_back_are_forgotten_by_age(begin, sql, queue):
    name = queue()
    fill(sql, name, 5)
    dead = begin(name)
    assert dead.plan()
    dead.kill()
    begin(name).plan()
    assert claims(sql, name) == 5
    sql(f"UPDATE {table_name(name)} SET time_claimed = time_claimed - {8 * 86_400_000_000_000}")
    begin(name).plan()
    assert claims(sql, name) == 0


def test_a_restart_counts_as_a_delivery_and_too_many_end_in_the_dead_letter_queue(begin, sql, queue):
    name = queue(max_attempts=2)
    fill(sql, name, 3)
    checkpoint = Checkpoint()
    for deliveries in (1, 2):
        query = begin(name, checkpoint)
        assert query.plan()
        assert len(query.run()) == 3
        assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [deliveries]
        query.kill()
    last = begin(name, checkpoint)
    assert last.plan()
    assert last.run() == []
    last.finish()
    assert not last.plan()
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}") == 0, what="the messages to be moved")
    assert sql.rows(f"SELECT attempts, last_error FROM {name}_dead") == [(2, "not acked after 2 deliveries")] * 3


def test_what_was_delivered_too_often_is_not_claimed(begin, sql, queue):
    name = queue(max_attempts=2)
    fill(sql, name, 4)
    sql(f"UPDATE {name} SET epoch = 2 WHERE payload IN ('m0', 'm2')")
    assert [payload for _, payload in begin(name).batch()] == ["m1", "m3"]
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}") == 2, what="the messages to be moved")
    assert sorted(sql.column(f"SELECT payload FROM {name}_dead")) == ["m0", "m2"]


def test_what_was_delivered_too_often_does_not_end_a_query_that_takes_what_is_there(begin, sql, queue):
    """Trigger.AvailableNow ends at the first plan without anything new, so a plan looks behind what it rejects."""
    name = queue(max_attempts=2)
    fill(sql, name, 6)
    sql(f"UPDATE {name} SET epoch = 2 WHERE payload IN ('m0', 'm1', 'm2')")
    query = begin(name, limit=2)
    query.source.prepare_available_now()
    assert sorted(payload for _, payload in query.drain()) == ["m3", "m4", "m5"]


def test_a_message_that_is_rejected_or_deleted_is_left_out_of_a_repeated_batch(begin, sql, queue):
    name = queue()
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint)
    assert query.plan()
    query.kill()
    sql(f"REJECT {name} WHERE payload = 'm1' REASON 'kills the job'")
    sql(f"DELETE FROM {name} WHERE payload = 'm3'")
    again = begin(name, checkpoint)
    assert again.plan()
    assert [payload for _, payload in again.run()] == ["m0", "m2", "m4"]
    again.finish()
    assert not again.plan()
    wait_until(lambda: states(sql, name) == {"acked": 3}, what="the rejected message to be moved")
    assert sql.column(f"SELECT payload FROM {name}_dead WHERE state = 'dead'") == ["m1"]


@pytest.mark.parametrize("again", ["TRUNCATE QUEUE {0}", "DROP QUEUE {0}; CREATE QUEUE {0} (payload VARCHAR(40))"])
@pytest.mark.parametrize("leased", [False, True])
def test_messages_that_have_the_ids_of_claimed_ones_are_not_acked_with_them(begin, sql, queue, again, leased):
    """Ids begin anew behind DROP and CREATE: what has id 1 now is a message that this query has never seen."""
    name = queue("payload VARCHAR(40)")
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint)
    assert len(query.batch()) == 5
    query.kill()
    for statement in again.format(name).split("; "):
        sql(statement)
    fill(sql, name, 5, first=100)
    assert not leased or len(take(sql, name)) == 5
    restarted = begin(name, checkpoint)
    assert len(restarted.drain()) == (0 if leased else 5)
    assert states(sql, name) == ({"fired": 5} if leased else {"acked": 5})


def test_a_micro_batch_is_repeated_without_the_messages_that_have_its_ids_now(begin, sql, queue):
    name = queue()
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint)
    assert query.plan()
    query.kill()
    sql(f"TRUNCATE QUEUE {name}")
    fill(sql, name, 3, first=100)
    restarted = begin(name, checkpoint)
    assert restarted.batch() == []
    assert [payload for _, payload in restarted.drain()] == ["m100", "m101", "m102"]


def test_a_slow_look_does_not_make_new_messages_of_the_same_ids_part_of_a_claim(begin, sql, queue, monkeypatch):
    name = queue()
    fill(sql, name, 5)
    checkpoint = Checkpoint()
    query = begin(name, checkpoint)
    look = Due.poll

    def slow(due, client, until=None):
        client.rows("SELECT SLEEP(1)")  # before the statement that reads the database's clock
        return look(due, client, until)

    monkeypatch.setattr(Due, "poll", slow)
    assert query.plan()
    query.kill()
    sql(f"TRUNCATE QUEUE {name}")
    fill(sql, name, 3, first=100)
    assert begin(name, checkpoint).batch() == []


def test_a_message_that_says_it_was_made_in_the_future_is_received_and_acked(begin, sql, queue):
    name = queue()
    sql(f"INSERT INTO {name} (payload, time_created) VALUES ('m', UNIX_TIMESTAMP() * 1000000000 + {LATER_NS})")
    assert [payload for _, payload in begin(name).drain()] == ["m"]
    assert states(sql, name) == {"acked": 1}


# --- leases


def test_what_somebody_else_has_leased_since_is_acked_and_counted(begin, sql, queue, gate):
    name = queue()
    fill(sql, name, 5)
    query = begin(name)
    assert query.plan()
    query.run()
    query.kill()
    run_out(sql, name)
    query.source._consumer._maker.leased_at = -math.inf  # as long ago as that takes
    with Stream(gate, f"SELECT id FROM STREAM {name} WITH (ack_wait = '5m') LIMIT 2") as other:
        other.wait_end()
        query.finish()
        assert not query.plan()
        report = query.source.report()
        assert report is not None and (report["leasesLost"], report["acked"]) == (2, 5)
        assert sql(f"ACK {name} {', '.join(map(str, other.ids()))}") == 0


def test_a_lost_lease_ends_the_query_before_anything_is_acked_where_that_is_asked_for(begin, sql, queue):
    name = queue()
    fill(sql, name, 3)
    query = begin(name, onLeaseLost="fail")
    assert query.plan()
    query.run()
    query.kill()
    run_out(sql, name)
    taken = take(sql, name)
    query.finish()
    with pytest.raises(LeaseLostError, match=rf"3 were leased to somebody else.*{taken[0]}"):
        query.plan()
    assert states(sql, name) == {"fired": 3}
    assert claims(sql, name) == 3
    again = begin(name, query.checkpoint)
    assert not again.plan()
    assert states(sql, name) == {"acked": 3}


def test_leases_are_renewed_while_a_batch_takes_its_time(begin, sql, queue):
    name = queue()
    fill(sql, name, 4)
    query = begin(name, leaseSeconds=1)
    assert query.plan()
    first = int(sql.value(f"SELECT MIN(time_next) FROM {name}"))
    wait_until(lambda: int(sql.value(f"SELECT MIN(time_next) FROM {name}")) > first + 2_000_000_000, what="renewals")
    assert take(sql, name) == []
    assert sql.column(f"SELECT DISTINCT time_next % 1000 FROM {name}") == [1]
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [1]


BOUNDED = {"max_attempts": "3", "min_backoff": "0", "max_backoff": "'1s'"}


@pytest.mark.parametrize("limit", [{}, {"max_concurrency": "100"}], ids=["directly", "by a stream"])
def test_what_a_batch_takes_counts_as_a_whole(begin, sql, queue, limit):
    """Where attempts are bounded what other receivers hold together does not count, and keeps its epoch. By the epoch
    a claim knows whether it is held: so all that Spark takes counts, and its leases are renewed as ever."""
    name = queue(**BOUNDED, **limit)
    fill(sql, name, 3)
    query = begin(name, leaseSeconds=60)
    assert query.plan()
    assert len(query.run()) == 3
    query.kill()
    assert sql.column(f"SELECT DISTINCT time_next % 1000 FROM {name}") == [1]
    run_out(sql, name)
    ((id_, epoch),) = sql.rows(f"SELECT id, epoch FROM STREAM {name} WITH (ack_wait = '5m') LIMIT 9 NOWAIT")
    assert epoch == 2, "of several one goes out alone, and what Spark had has counted"
    again = begin(name, query.checkpoint)
    assert len(again.run()) == 3
    again.finish()
    assert not again.plan()
    report = again.source.report()
    assert report is not None and report["leasesLost"] == 1
    assert sql(f"ACK {name} {id_}") == 0


def test_leases_that_a_stream_made_of_several_are_renewed(begin, sql, queue):
    name = queue(**BOUNDED, max_concurrency="100")
    fill(sql, name, 4)
    query = begin(name, leaseSeconds=3)
    assert query.plan()
    first = int(sql.value(f"SELECT MIN(time_next) FROM {name}"))
    wait_until(lambda: int(sql.value(f"SELECT MIN(time_next) FROM {name}")) > first + 2_000_000_000, what="renewals")
    assert take(sql, name) == []
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [1]


def test_only_what_is_still_held_is_renewed(begin, sql, queue):
    name = queue()
    fill(sql, name, 4)
    query = begin(name)
    assert query.plan()
    query.kill()
    ids = sql.column(f"SELECT id FROM {name} ORDER BY id")
    sql(f"ACK {name} {ids[0]}")
    sql(f"NACK {name} {ids[1]} DELAY 60")
    run_out(sql, name)
    assert sql.column(f"SELECT id FROM STREAM {name} LIMIT 1 NOWAIT") == [ids[2]]
    before = sql.rows(f"SELECT id, time_next FROM {name} ORDER BY id")
    again = begin(name, query.checkpoint)
    assert again.source._consumer_of(query.checkpoint.offsets[0]["group"])  # its heartbeat beats at once
    wait_until(lambda: sql.rows(f"SELECT id, time_next FROM {name} ORDER BY id") != before, what="a renewal")
    after = dict(sql.rows(f"SELECT id, time_next FROM {name}"))
    assert [id_ for id_, time_next in before if after[id_] != time_next] == [ids[3]]


@pytest.mark.parametrize("limit", [{}, {"max_concurrency": "100"}], ids=["directly", "by a stream"])
def test_a_delivery_of_the_same_number_is_anothers(begin, sql, queue, limit):
    """RELEASE takes the epoch back, so that the next receiver's is that of the claim; the lease token is not."""
    name = queue(**limit)
    fill(sql, name, 2)
    query = begin(name)
    assert query.plan()
    query.kill()
    released, held = sql.column(f"SELECT id FROM {name} ORDER BY id")
    assert sql(f"RELEASE {name} {released}") == 1
    lease = f"SELECT id, epoch, lease_token FROM STREAM {name} WITH (ack_wait = '5m') LIMIT 9 NOWAIT"
    ((id_, epoch, token),) = sql.rows(lease)
    assert (id_, epoch) == (released, 1)
    before = sql.row(f"SELECT epoch, lease_token, time_next FROM {name} WHERE id = {released}")
    sql(f"UPDATE {name} SET time_next = time_next - {LATER_NS} WHERE id = {held}")
    again = begin(name, query.checkpoint)
    assert again.plan()
    assert len(again.run()) == 2
    epochs = f"SELECT epoch FROM {name} WHERE id = {held}"
    wait_until(lambda: sql.value(epochs) == 2, what="what is still held to be leased again")
    assert sql.row(f"SELECT epoch, lease_token, time_next FROM {name} WHERE id = {released}") == before
    again.finish()
    assert not again.plan()
    report = again.source.report()
    assert report is not None and report["leasesLost"] == 1
    assert sql(f"ACK {name} WHERE id = {id_} AND lease_token = {token}") == 0, "the batch is done, and it was in it"


def test_claims_of_an_earlier_version_are_kept(begin, sql, queue):
    """Their table has no column for lease tokens yet."""
    name = queue()
    fill(sql, name, 4)
    query = begin(name)
    assert query.plan()
    before = query.run()
    query.kill()
    sql(f"ALTER TABLE {table_name(name)} DROP COLUMN token")
    again = begin(name, query.checkpoint)
    assert again.plan()
    assert again.run() == before
    again.finish()
    assert not again.plan()
    assert states(sql, name) == {"acked": 4}


# --- order, priorities, keys


def test_messages_come_by_priority_and_then_as_they_fell_due(begin, sql, queue):
    name = queue("payload VARCHAR(20), priority SMALLINT DEFAULT 50")
    sql(f"INSERT INTO {name} (payload, priority, time_next) VALUES ('n', 7, NULL)")
    for payload, priority, due in (("c", 7, 30), ("a", -3, 50), ("d", 50, 10), ("b", 7, 20)):
        sql(f"INSERT INTO {name} (payload, priority, time_next) VALUES (%s, %s, %s)", payload, priority, 10**18 + due)
    query = begin(name, numPartitions=1)
    assert query.plan()
    came = [payload for _, payload in query.run()]
    assert [payload for payload in came if payload != "n"] == ["a", "b", "c", "d"]
    assert came.index("n") in (1, 2, 3)  # NULL means now, which some backends write at once


def test_a_table_of_vitess_whose_priorities_may_be_missing(begin, sql, name):
    """NULL counts as 0."""
    sql(
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, priority TINYINT, epoch BIGINT, time_next BIGINT,"
        " time_acked BIGINT, message VARCHAR(20), KEY due (time_acked, priority, time_next))"
        " COMMENT 'vitess_message,vt_ack_wait=30,vt_purge_after=86400,"
        "vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30'"
    )
    sql(f"INSERT INTO {name} VALUES (1, 5, 0, 1, NULL, 'd'), (2, NULL, 0, 2, NULL, 'c'), (3, -5, 0, 3, NULL, 'a')")
    sql(f"INSERT INTO {name} VALUES (4, NULL, NULL, NULL, NULL, 'b'), (5, NULL, 0, {1 << 62}, NULL, 'later')")
    query = begin(name, columns="id, message, epoch", numPartitions=1)
    assert query.batch() == [(3, "a", 1), (4, "b", 1), (2, "c", 1), (1, "d", 1)]
    assert not query.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_acked IS NOT NULL") == 4
    sql(f"DROP QUEUE {name}")


def test_more_priorities_than_are_read_one_by_one(begin, sql, queue):
    name = queue("payload VARCHAR(20), priority SMALLINT DEFAULT 50")
    rows = ", ".join(f"('p{number}', {number})" for number in range(40))
    sql(f"INSERT INTO {name} (payload, priority) VALUES {rows}")
    assert [payload for _, payload in begin(name).batch()] == [f"p{number}" for number in range(40)]


def test_ids_of_text(begin, sql, queue):
    name = queue("id VARCHAR(36) PRIMARY KEY, payload VARCHAR(20)")
    keys = ["it's", 'a"b', "ünï", "a`b", "50%", *(str(uuid.UUID(int=number)) for number in range(20))]
    for key in keys:
        sql(f"INSERT INTO {name} (id, payload) VALUES (%s, %s)", key, key[:20])
    query = begin(name)
    assert sorted(id_ for id_, _ in query.batch()) == sorted(keys)
    assert not query.plan()
    assert states(sql, name) == {"acked": len(keys)}


def test_ids_of_bytes(begin, sql, queue):
    name = queue("id BINARY(16) PRIMARY KEY, payload VARCHAR(20)")
    keys = [uuid.UUID(int=number << 64 | 0x27005C).bytes for number in range(20)]
    for key in keys:
        sql(f"INSERT INTO {name} (id, payload) VALUES (X'{key.hex()}', 'x')")
    query = begin(name)
    assert sorted(id_ for id_, _ in query.batch()) == sorted(keys)
    assert not query.plan()
    assert states(sql, name) == {"acked": 20}


def test_vitess_first_layout(begin, sql, name):
    sql(
        f"CREATE TABLE {name} (time_scheduled BIGINT, id BIGINT, time_next BIGINT, epoch BIGINT, time_created BIGINT,"
        " time_acked BIGINT, message VARCHAR(128), PRIMARY KEY (time_scheduled, id), UNIQUE INDEX id_idx (id),"
        " INDEX next_idx (time_next, epoch)) COMMENT 'vitess_message,vt_ack_wait=30,vt_purge_after=86400,"
        "vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30'"
    )
    sql(f"INSERT INTO {name} (id, message) VALUES (1, 'a'), (2, 'b')")
    query = begin(name, columns="id, message, epoch")
    assert sorted(query.batch()) == [(1, "a", 1), (2, "b", 1)]
    assert not query.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_acked IS NOT NULL") == 2
    sql(f"DROP QUEUE {name}")


def test_a_queue_of_an_odd_name(begin, sql, gate):
    name = "odd % `name` " + "x" * 45
    quoted = "`" + name.replace("`", "``") + "`"
    sql(f"CREATE QUEUE {quoted} (`a % b` VARCHAR(20))")
    sql(f"INSERT INTO {quoted} (`a % b`) VALUES ('x'), ('y')")
    query = begin(name, columns="id, a % b")
    assert [value for _, value in query.batch()] == ["x", "y"]
    assert not query.plan()
    sql(f"DROP QUEUE {quoted}")


def test_a_column_that_is_not_there_is_one_clear_error(begin, queue):
    with pytest.raises(SchemaError, match="has no column body"):
        begin(queue(), columns="id, body").plan()


# --- options of the queue


def test_a_paused_queue_gives_nothing(begin, sql, queue):
    name = queue()
    fill(sql, name, 3)
    query = begin(name)
    sql(f"ALTER QUEUE {name} PAUSE")
    assert not query.plan()
    sql(f"ALTER QUEUE {name} RESUME")
    assert len(query.batch()) == 3


def test_one_message_of_a_key_at_a_time(begin, sql, queue):
    name = queue("account VARCHAR(10), payload VARCHAR(10)", order_key="'account'")
    sql(f"INSERT INTO {name} (account, payload) VALUES ('a', 'a1'), ('a', 'a2'), ('b', 'b1'), ('a', 'a3'), ('b', 'b2')")
    query = begin(name)
    batches = [sorted(payload for _, payload in query.batch()) for _ in range(4)]
    assert batches == [["a1", "b1"], ["a2", "b2"], ["a3"], []]
    assert states(sql, name) == {"acked": 5}


def test_no_more_in_flight_than_the_queue_allows(begin, sql, queue):
    name = queue(max_concurrency=4)
    fill(sql, name, 10)
    one, other = begin(name), begin(name)
    assert len(one.batch()) == 4
    assert not other.plan()
    assert len(one.batch()) == 4
    assert len(one.batch()) == 2


def test_no_more_a_second_than_the_queue_allows(begin, sql, queue):
    name = queue(max_rate="'0.2/s'")
    fill(sql, name, 5)
    query = begin(name)
    assert len(query.batch()) == 1
    assert not query.plan()
    assert states(sql, name) == {"acked": 1, "to_be_fired": 4}


def test_the_last_ack_of_a_group_sends_what_follows(begin, sql, queue):
    parts, done = queue("order_id BIGINT, payload VARCHAR(10)", group_key="'order_id'"), queue("order_id BIGINT")
    sql(f"INSERT INTO {parts} (order_id, payload) VALUES (42, 'a'), (42, 'b')")
    sql(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}")
    query = begin(parts)
    assert len(query.batch()) == 2
    assert take(sql, done) == []
    assert not query.plan()
    assert len(take(sql, done)) == 1


# --- availableNow


def test_available_now_ends_with_what_was_due_at_its_begin(begin, sql, queue, tick):
    name = queue()
    fill(sql, name, 25)
    query = begin(name, limit=10)
    query.source.prepare_available_now()
    tick()
    fill(sql, name, 5, first=100)
    assert [payload for _, payload in query.drain()] == [f"m{number}" for number in range(25)]
    assert states(sql, name) == {"acked": 25, "to_be_fired": 5}


def test_available_now_with_an_order_goes_on_to_the_end_of_each_key(begin, sql, queue):
    name = queue("account VARCHAR(10), payload VARCHAR(10)", order_key="'account'")
    sql(f"INSERT INTO {name} (account, payload) VALUES {', '.join(f'({n % 2}, {n})' for n in range(10))}")
    query = begin(name)
    query.source.prepare_available_now()
    assert sorted(int(payload) for _, payload in query.drain()) == list(range(10))
    assert states(sql, name) == {"acked": 10}


HALF_A_DAY_NS = 12 * 3600 * 10**9


@pytest.mark.parametrize("limit", [{}, {"max_rate": "1000"}], ids=["directly", "by a stream"])
def test_a_lease_may_be_longer_than_that_of_any_other_receiver(begin, sql, queue, limit):
    """A receiver has half a day at most, unless it renews its leases."""
    name = queue(**limit)
    fill(sql, name, 3)
    query = begin(name, leaseSeconds=7 * 86400)
    assert query.plan() and len(query.run()) == 3
    now = int(sql.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) AS SIGNED)")) * 10**9
    assert min(sql.column(f"SELECT time_next FROM {name}")) > now + 10 * HALF_A_DAY_NS
    query.finish()
    assert not query.plan() and states(sql, name) == {"acked": 3}


# --- offsets


def test_another_queues_checkpoint_is_refused(begin, sql, queue):
    one, other = queue(), queue()
    fill(sql, one, 1)
    query = begin(one)
    assert query.batch()
    with pytest.raises(QueueError, match=f"belongs to queue .*{one}.*not .*{other}"):
        begin(other, query.checkpoint).plan()
    with pytest.raises(QueueError, match="not written with mode=tail"):
        begin(one, query.checkpoint, mode="tail").plan()
    query.checkpoint.offsets[-1]["v"] = 2
    with pytest.raises(QueueError, match="version 2"):
        begin(one, query.checkpoint).plan()


def test_a_table_of_claims_of_another_type_is_refused(begin, sql, queue, name):
    first = queue()
    fill(sql, first, 1)
    begin(first).plan()
    sql(f"DROP QUEUE {first}")
    sql(f"CREATE QUEUE {first} (id VARCHAR(36) PRIMARY KEY, payload VARCHAR(20))")
    with pytest.raises(QueueError, match="another type of id"):
        begin(first).plan()


# --- how it stands


def test_the_report_counts_what_is_due_claimed_acked_and_ended_by_others(begin, gate, sql, queue):
    name = queue()
    fill(sql, name, 30)
    query = begin(name, limit=10)
    assert query.plan()
    place = f"{gate.database}.{name}"
    counts = {"backlog": 20, "claimed": 10, "acked": 0, "leasesLost": 0, "endedByOthers": 0}
    assert query.source.report() == {"queue": place, **counts}
    query.run()
    query.finish()
    sql(f"ACK {name} WHERE payload = 'm1'")
    sql(f"DELETE FROM {name} WHERE payload = 'm2'")
    assert query.plan()
    report = query.source.report()
    assert report is not None
    assert (report["claimed"], report["acked"], report["endedByOthers"]) == (10, 8, 2)
