"""kill -9 of the proxy under load: what INSERT promised is delivered, what ACK promised stays acked."""

from __future__ import annotations

import signal
import time

from load import Load
from servers import Sql, Stream, wait_until
from slowness import scaled


def test_kill_9_under_load_several_times(new_gate):
    gate = new_gate()
    gate.start()
    setup = Sql(gate.connect())
    # Long enough for a receiver to read what is in its socket before the lease is over, else an old copy in there
    # would look like a message sent after its ack.
    setup("CREATE QUEUE q (name VARCHAR(100)) WITH (ack_wait = '4s', min_backoff = '10ms', max_backoff = '4s')")
    setup.close()
    load = Load(gate, "q")
    load.start()
    for _ in range(4):
        load.await_progress("progress under load")
        gate.kill()
        gate.start()
    load.await_progress("progress after the last crash")
    load.join()
    load.check()


def test_delivered_but_not_acked_comes_again_after_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '300ms', min_backoff = '10ms', max_backoff = '300ms')")
    client("INSERT INTO q (payload) VALUES ('kept'), ('acked')")
    assert client.column("SELECT id FROM STREAM q LIMIT 2") == [1, 2]
    assert client("ACK q 2") == 1
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT id, payload, epoch FROM STREAM q LIMIT 1 WAIT 10") == [(1, "kept", 2)]
    assert client("ACK q 1") == 1
    assert client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0
    client.close()


def test_an_uncommitted_transaction_is_gone_after_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT)")
    client("CREATE TABLE business (n INT)")
    client("BEGIN")
    client("INSERT INTO business (n) VALUES (1)")
    client("INSERT INTO q (payload) VALUES ('never')")
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    wait_until(lambda: client.rows("SELECT n FROM business") == [], what="the roll back")
    assert client.rows("SELECT payload FROM STREAM q LIMIT 1 NOWAIT") == []
    client.close()


def test_schedules_and_queues_survive_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '45s', batch_size = 7)")
    text = client.row("SHOW CREATE QUEUE q")
    due = time.time_ns() + 2_000_000_000
    client("INSERT INTO q (payload, time_scheduled) VALUES ('later', %s)", due)
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.row("SHOW CREATE QUEUE q") == text
    assert client.rows("SELECT payload FROM STREAM q LIMIT 1 WAIT 20") == [("later",)]
    assert time.time_ns() >= due - 2_000_000
    client.close()


def test_sigterm_exits_0_and_leaves_messages_with_who_has_them(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '1h', max_backoff = '2h')")
    receiver = Stream(gate, "SELECT id, epoch FROM STREAM q")
    client("INSERT INTO q (payload) VALUES ('a'), ('b')")
    assert receiver.wait(2) == [(1, 1), (2, 1)]
    started = time.monotonic()
    assert gate.terminate() == 0
    assert time.monotonic() - started < scaled(15)
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] in (1053, 2013)
    receiver.close()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT id FROM STREAM q LIMIT 2 NOWAIT") == []
    assert client.rows("SELECT id, epoch, time_next % 1000 FROM q ORDER BY id") == [(1, 1, 1), (2, 1, 1)]
    assert client("ACK q WHERE id = 1 AND epoch = 1") == 1
    assert client("RELEASE q 2") == 1
    assert client.rows("SELECT id, epoch FROM STREAM q LIMIT 2 WAIT 5") == [(2, 1)]
    client.close()


def test_a_sigterm_during_the_end_changes_no_exit_code(new_gate):
    gate = new_gate()
    if not gate.embedded:
        gate.config["workers"] = 2
    gate.start()
    process = gate.process
    assert process is not None
    deadline = time.monotonic() + scaled(30)
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGTERM)
    assert gate.terminate() == 0


def test_sigterm_with_an_idle_and_a_busy_client(new_gate):
    gate = new_gate(shutdown_grace="3s")
    gate.start()
    idle, busy = Sql(gate.connect()), Sql(gate.connect())
    busy("CREATE QUEUE q (payload TEXT)")
    busy("BEGIN")
    busy("INSERT INTO q (payload) VALUES ('uncommitted')")
    assert gate.terminate(20) == 0
    for client in (idle, busy):
        client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT * FROM q") == []
    client.close()


def test_what_is_rejected_when_the_proxy_dies_is_moved_by_the_next(new_gate):
    """Killed between the commit of a REJECT and the move, or in the middle of it, again and again."""
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (poll_interval = '1s')")
    client(f"INSERT INTO q (n) VALUES {', '.join(f'({n})' for n in range(1, 401))}")
    for batch in range(4):
        client(f"REJECT q WHERE n % 4 = {batch} REASON 'no'")
        gate.kill()
        client.connection._force_close()
        gate.start()
        client = Sql(gate.connect())
    wait_until(lambda: client.value("SELECT COUNT(*) FROM q") == 0, timeout=30, what="the last of the moves")
    assert client.value("SELECT COUNT(*) FROM q_dead") == 400
    assert client.value("SELECT COUNT(DISTINCT n) FROM q_dead WHERE last_error = 'no' AND state = 'dead'") == 400
    client.close()
