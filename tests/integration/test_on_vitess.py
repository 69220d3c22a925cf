"""On Vitess: the unsharded keyspace, whose database has another name (`vt_` before it), and one with two shards."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid

import pytest
from servers import ROOT, SERVER, Gate, Sql, wait_until
from vitess_server import SHARDED

pytestmark = pytest.mark.skipif(SERVER != "vitess", reason="needs a Vitess: make test-vitess")


@pytest.fixture
def place():
    return "vitess"


@pytest.fixture(scope="module")
def vitess(mariadb, tmp_path_factory):
    gate = Gate(mariadb.url(), tmp_path_factory.mktemp("vitess")).start()
    yield gate
    gate.stop()


def test_each_verb(vitess):
    sql, q = Sql(vitess.connect()), f"q{uuid.uuid4().hex[:8]}"
    sql(f"CREATE QUEUE {q} (body VARCHAR(20), at TIMESTAMP(3) NULL) WITH (max_attempts = 3)")
    sql(f"INSERT INTO {q} (body, at) VALUES ('a', '2026-07-01 00:00:00.5'), ('b', NULL), ('c', NULL)")
    assert sql.column(f"SELECT body FROM STREAM {q} LIMIT 3 WAIT 10") == ["a", "b", "c"]
    assert sql(f"ACK {q} 1") == sql(f"NACK {q} 2 DELAY 0") == sql(f"REJECT {q} 3 REASON 'bad'") == 1
    assert sql.column(f"SELECT body FROM STREAM {q} LIMIT 1 WAIT 10") == ["b"]
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead letter")
    assert q in sql.column("SHOW QUEUE STATUS")
    sql.close()


def test_a_sharded_keyspace_takes_no_queue_without_a_key_and_no_topic(vitess):
    sql = Sql(vitess.connect())
    sql(f"USE {SHARDED}")
    for what in ("QUEUE", "TOPIC"):
        errno, text = sql.error(f"CREATE {what} wide (body TEXT)")
        assert errno == 1235 and "shard" in text
    sql.close()


def test_a_sharded_keyspace_is_refused_at_the_start(mariadb, tmp_path):
    (tmp_path / "config.yaml").write_text(f"backend: {mariadb.url(SHARDED)}\nlisten: 127.0.0.1:0\nworkers: 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "serve", "--config", str(tmp_path / "config.yaml")], cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("queuegate: ")]
    assert done.returncode == 1 and f"the keyspace '{SHARDED}' has" in line


KEYS_OF_EACH = 10_000
_chance = random.Random(24)
KEYS = {
    "BIGINT": sorted({_chance.randint(-(2**63), 2**63 - 1) for _ in range(KEYS_OF_EACH)}),
    "INT UNSIGNED": range(KEYS_OF_EACH),
    "VARCHAR(40)": [f"Kundin {n} größer als {n:x}'s \\ 😀"[: 20 + n % 20] for n in range(KEYS_OF_EACH)],
    "CHAR(36) CHARACTER SET ascii": [str(uuid.UUID(int=_chance.getrandbits(128))) for _ in range(KEYS_OF_EACH)],
    "VARBINARY(24)": [_chance.randbytes(1 + n % 24) for n in range(KEYS_OF_EACH)],
    "BINARY(16)": [_chance.randbytes(15) + b"x" for _ in range(KEYS_OF_EACH)],
}


def _bytes_of(value):
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.mark.parametrize("kind", KEYS)
def test_the_ring_is_that_of_vtgate(vitess, mariadb, kind):
    sql, q = Sql(vitess.connect()), f"q{uuid.uuid4().hex[:8]}"
    sql(f"CREATE QUEUE {q} (k {kind} NOT NULL) SHARDING KEY (k)")
    vtgate = Sql(mariadb.connect(database=SHARDED))
    places: list[bytes] = []
    for start in range(0, KEYS_OF_EACH, 500):
        keys = KEYS[kind][start : start + 500]
        sql(f"INSERT INTO {q} (k) VALUES {', '.join(['(%s)'] * len(keys))}", *keys)
        values = [f"X'{_bytes_of(key).hex()}'" for key in keys]
        rows = vtgate.rows(f"SELECT id, keyspace_id FROM binary_md5 WHERE id IN ({', '.join(values)})")
        ids = {_bytes_of(id_): _bytes_of(place) for id_, place in rows}
        places += [ids[_bytes_of(key)] for key in keys]
    slots = sql.column(f"SELECT queuegate_slot FROM {q} ORDER BY id")
    assert [slot.to_bytes(2, "big") for slot in slots] == [place[:2] for place in places]
    for session in (sql, vtgate):
        session.close()
