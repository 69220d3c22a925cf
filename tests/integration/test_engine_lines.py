"""The engine's own connections to the database: a few, however many queues and receivers there are. MariaDB only."""

from __future__ import annotations

import contextlib
import threading

from servers import Gate, Sql, Stream, wait_until
from slowness import scaled


def test_many_receivers_share_few_transactions(mariadb, tmp_path):
    """Twenty streams on four queues, all with messages that come again and again, over two connections."""
    url = mariadb.fresh_database("few_lines").replace("root@", "few:pw@")
    watcher = Sql(mariadb.connect())
    watcher("DROP USER IF EXISTS few@'%%'")
    watcher("CREATE USER few@'%%' IDENTIFIED BY 'pw'")
    watcher("GRANT ALL ON few_lines.* TO few@'%%'")
    gate = Gate(url, tmp_path, database="few_lines", limits={"database_work": 2}).start()
    client = Sql(gate.connect())
    queues = [f"q{n}" for n in range(4)]
    for q in queues:
        client(f"CREATE QUEUE {q} (n INT) WITH (ack_wait = '200ms', min_backoff = 0, batch_size = 2)")
        client(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(100)))
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            count = watcher.value("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'few'")
            most[0] = max(most[0], count)

    thread = threading.Thread(target=watch)
    thread.start()
    with contextlib.ExitStack() as open_streams:
        streams = [
            (q, open_streams.enter_context(Stream(gate, f"SELECT id, epoch FROM STREAM {q}")))
            for q in queues
            for _ in range(5)
        ]
        for q in queues:
            mine = [receiver for name, receiver in streams if name == q]
            wait_until(lambda mine=mine: sum(len(one.rows) for one in mine) >= 300, what="deliveries, and more of them")
            wait_until(lambda mine=mine: {id_ for one in mine for id_ in one.ids()} == set(range(1, 101)))
    done.set()
    thread.join(scaled(10))
    assert 1 <= most[0] <= 2
    for closing in (client, watcher):
        closing.close()
    gate.stop()
