"""`Queue.send` on every kind of connection that applications have, in their transactions, on both backends."""

from __future__ import annotations

import enum
import json
import os
import pathlib
import subprocess
import sys
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import aiomysql
import asyncmy
import django
import mysql.connector
import pymysql
import pytest
import sqlalchemy
from django.conf import settings as of_django
from django.db.backends.mysql.base import DatabaseWrapper
from pydantic import AwareDatetime, BaseModel, HttpUrl, SecretStr
from servers import ROOT, wait_until
from slowness import scaled
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from queuegate_worker import Queue, Worker, WorkerError
from queuegate_worker.sending import transport

ORDERS = Queue("orders")
SYNCHRONOUS = [
    "pymysql",
    "mysqlclient",
    "mysql-connector",
    "session",
    "scoped_session",
    "connection",
    "function",
    "django",
]
ASYNCHRONOUS = ["aiomysql", "asyncmy", "session-aiomysql", "session-asyncmy", "connection-asyncmy"]


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


@pytest.fixture(autouse=True)
def orders(sql):
    sql("CREATE QUEUE orders (customer INT, items JSON, note VARCHAR(80), day DATE)")


@contextmanager
def opened(kind, gate):
    """A connection of an application in a transaction, and the functions that end it."""
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    url = f"mysql+pymysql://root@127.0.0.1:{gate.port}/{gate.database}"
    match kind:
        case "pymysql":
            with pymysql.connect(**address) as connection:
                yield connection, connection.commit, connection.rollback
        case "function":
            with pymysql.connect(**address) as connection:
                yield lambda: connection, connection.commit, connection.rollback
        case "mysqlclient":
            driver = pytest.importorskip("MySQLdb")
            connection = driver.connect(**address)
            yield connection, connection.commit, connection.rollback
            connection.close()
        case "mysql-connector":
            connection = mysql.connector.connect(**address)
            yield connection, connection.commit, connection.rollback
            connection.close()
        case "session" | "scoped_session":
            engine = sqlalchemy.create_engine(url)
            session = Session(engine) if kind == "session" else scoped_session(sessionmaker(engine))
            yield session, session.commit, session.rollback
            session.close()
            engine.dispose()
        case "connection":
            engine = sqlalchemy.create_engine(url)
            with engine.connect() as connection:
                yield connection, connection.commit, connection.rollback
            engine.dispose()
        case "django":
            yield from in_django(address)


def in_django(address):
    pytest.importorskip("MySQLdb")
    settings = {
        "ENGINE": "django.db.backends.mysql", "HOST": "127.0.0.1", "PORT": str(address["port"]), "USER": "root",
        "NAME": address["database"], "PASSWORD": "", "OPTIONS": {"charset": "utf8mb4"}, "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False, "AUTOCOMMIT": False, "ATOMIC_REQUESTS": False, "TIME_ZONE": None, "TEST": {},
    }  # fmt: skip
    if not of_django.configured:
        of_django.configure(USE_TZ=True)
    django.setup()
    wrapper = DatabaseWrapper(settings)
    yield wrapper, wrapper.commit, wrapper.rollback
    wrapper.close()


@pytest.mark.parametrize("kind", SYNCHRONOUS)
def test_a_message_is_part_of_the_applications_transaction(gate, sql, kind):
    with opened(kind, gate) as (connection, commit, roll_back):
        ORDERS.send(customer=1, connection=connection)
        roll_back()
        first = ORDERS.send(customer=2, items=[{"price": 1.5}], note="50% 'off' %s", connection=connection)
        assert sql.rows("SELECT customer FROM orders") == []
        commit()
        assert ORDERS.send_many([{"customer": 3}, {"customer": 4}], connection=connection, delay=60) == 2
        commit()
    later = "time_scheduled > (UNIX_TIMESTAMP() + 30) * 1000000000"
    rows = sql.rows(f"SELECT id, customer, items, note, {later} FROM orders ORDER BY id")
    assert rows[0][:2] == (first, 2) and json.loads(rows[0][2]) == [{"price": 1.5}] and rows[0][3] == "50% 'off' %s"
    assert [(row[1], row[4]) for row in rows] == [(2, 0), (3, 1), (4, 1)]
    assert sql.rows("SELECT customer FROM STREAM orders LIMIT 3 NOWAIT") == [(2,)]


@asynccontextmanager
async def opened_async(kind, gate):
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "db": gate.database}
    name = kind.partition("-")[2]
    match kind:
        case "aiomysql" | "asyncmy":
            driver = {"aiomysql": aiomysql, "asyncmy": asyncmy}[kind]
            connection = await driver.connect(**address)
            try:
                yield connection, connection.commit, connection.rollback
            finally:
                connection.close()
        case _:
            engine = create_async_engine(f"mysql+{name}://root@127.0.0.1:{gate.port}/{gate.database}")
            async with AsyncSession(engine) if kind.startswith("session") else engine.connect() as connection:
                yield connection, connection.commit, connection.rollback
            await engine.dispose()


@pytest.mark.parametrize("kind", ASYNCHRONOUS)
async def test_the_same_with_asyncio(gate, sql, kind):
    async with opened_async(kind, gate) as (connection, commit, roll_back):
        await ORDERS.send_async(customer=1, connection=connection)
        await roll_back()
        first = await ORDERS.send_async({"customer": 2, "note": "ä"}, connection=connection)
        assert await ORDERS.send_many_async([{"customer": 3}, {"customer": 4}], connection=connection) == 2
        await commit()
        with pytest.raises(WorkerError, match="use send_async"):
            ORDERS.send(customer=5, connection=connection)
        await roll_back()
    assert sql.rows("SELECT id, customer FROM orders ORDER BY customer")[0] == (first, 2)
    assert sql.rows("SELECT customer, note FROM orders ORDER BY customer") == [(2, "ä"), (3, None), (4, None)]


async def test_a_synchronous_connection_is_refused_in_send_async(gate):
    with opened("pymysql", gate) as (connection, *_), opened("session", gate) as (session, *_):
        for refused in (connection, session):
            with pytest.raises(WorkerError, match="use send"):
                await ORDERS.send_async(customer=1, connection=refused)


def test_a_time_does_not_depend_on_the_sessions_zone(gate, sql):
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    with opened("pymysql", gate) as (connection, commit, _):
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '-11:00'")
        ORDERS.send(customer=1, at=at, connection=connection)
        ORDERS.send(customer=2, at=at - timedelta(hours=2), connection=connection)
        commit()
    assert sql.value("SELECT time_scheduled FROM orders WHERE customer = 1") == int(at.timestamp()) * 10**9
    assert sql.rows("SELECT customer FROM STREAM orders LIMIT 2 NOWAIT") == [(2,)]


def test_without_a_connection_it_commits_on_one_of_its_own(gate, sql, monkeypatch):
    monkeypatch.setenv("QUEUEGATE_URL", f"mysql://root@127.0.0.1:{gate.port}/{gate.database}")
    with transport.replaced_by(transport.Database()):
        assert ORDERS.send(customer=1) and ORDERS.send(customer=2)
        sql(f"KILL {transport.current()._own.connection.driver_connection.thread_id()}")
        with pytest.raises(pymysql.MySQLError):
            ORDERS.send(customer=3)  # whether it was sent cannot be known, so it is not sent twice
        assert ORDERS.send(customer=4)
        with pytest.raises(pymysql.MySQLError, match=r"1054|colum"):
            ORDERS.send(nothing=1)
        assert transport.current()._own.connection.open, "a statement that is refused costs no connection"
        assert ORDERS.send_many({"customer": number} for number in range(10, 1010)) == 1000
        with pytest.raises(pymysql.MySQLError, match=r"1054|colum"):
            ORDERS.send_many([{"nothing": number} for number in range(1000)])
        transport.current()._own.connection.close()
    assert sql.column("SELECT customer FROM orders WHERE customer < 10 ORDER BY 1") == [1, 2, 4]
    assert sql.value("SELECT COUNT(*) FROM orders") == 1003


@dataclass
class Order:
    customer: int
    items: list[str]


def test_a_typed_message_comes_out_as_it_went_in(gate, sql):
    typed, seen = Queue("orders", Order), []
    sql("INSERT INTO orders (customer, items) VALUES (NULL, '[1]')")
    with opened("pymysql", gate) as (connection, commit, _):
        typed.send(Order(7, ["pen"]), connection=connection)
        commit()
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    Worker(address, typed.name).run(lambda message: seen.append(typed.load(message)), drain=True)
    assert seen == [Order(7, ["pen"])]
    wait_until(lambda: sql.rows("SHOW TABLES LIKE 'orders_dead'"), 60, "the dead letters")
    ((error,),) = wait_until(lambda: sql.rows("SELECT last_error FROM orders_dead"), 60, "the dead letter")
    assert "customer" in error


class Kind(enum.Enum):
    FIRST = "first"


class Everything(BaseModel):
    kind: Kind
    number: uuid.UUID
    url: HttpUrl
    path: pathlib.Path
    secret: SecretStr
    opens: time
    lasts: timedelta
    before: timedelta
    day: date
    local: datetime
    moment: AwareDatetime
    amount: Decimal
    share: float
    paid: bool
    raw: bytes | None
    big: int
    many: list[date] | None


EVERYTHING = Everything(
    kind=Kind.FIRST, number=uuid.UUID(int=1), url=HttpUrl("http://x.y/"), path=pathlib.Path("/a"),
    secret=SecretStr("s"), opens=time(9, 30, 0, 5), lasts=timedelta(hours=30, microseconds=5),
    before=timedelta(minutes=-90), big=2**60,
    day=date(2026, 7, 1), local=datetime(2026, 7, 1, 12, 0, 0, 5), raw=b"\0\xff'\\%s", many=[date(2026, 7, 1)],
    moment=datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2))), amount=Decimal("1.50"), share=0.1, paid=True,
)  # fmt: skip
COLUMNS = """kind VARCHAR(9), number CHAR(36), url VARCHAR(99), path VARCHAR(99), secret VARCHAR(99), opens TIME(6),
    lasts TIME(6), `before` TIME, day DATE, local DATETIME(6), moment DATETIME(6), amount DECIMAL(9, 2), share DOUBLE,
    paid BOOL, raw BLOB, big BIGINT, many JSON"""


@pytest.mark.parametrize("kind", ["pymysql", "mysqlclient", "mysql-connector", "aiomysql", "asyncmy"])
async def test_every_type_comes_out_as_it_went_in_by_every_driver(gate, sql, kind):
    sql(f"CREATE QUEUE typed ({COLUMNS})")
    typed, seen = Queue("typed", Everything), []
    # aiomysql 0.3 has no bytes: it takes the function for them from PyMySQL, where it is no longer.
    sent = EVERYTHING.model_copy(update={"raw": None}) if kind == "aiomysql" else EVERYTHING
    if kind in ASYNCHRONOUS:
        async with opened_async(kind, gate) as (connection, commit, _):
            await typed.send_async(sent, connection=connection)
            await commit()
    else:
        with opened(kind, gate) as (connection, commit, _):
            typed.send(sent, connection=connection)
            commit()
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    Worker(address, "typed").run(lambda message: seen.append(typed.load(message)), drain=True)
    assert seen == [sent]


FORKING = """
import os
from queuegate_worker import Queue

orders = Queue("orders")
orders.send(customer=0)
children = []
for child in (1, 2, 3):
    if (process := os.fork()) == 0:
        for customer in range(child * 1000, child * 1000 + 30):
            os.write(1, f"{orders.send(customer=customer)} {customer}\\n".encode())
        os._exit(0)
    children.append(process)
for process in children:
    os.waitpid(process, 0)
os.write(1, f"{orders.send(customer=1)} 1\\n".encode())
"""


def test_a_forked_process_has_a_connection_of_its_own(gate, sql):
    url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        cwd=ROOT,
        env={**os.environ, "QUEUEGATE_URL": url},
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(sent) == 91 and sorted(sent) == sql.rows(
        "SELECT id, customer FROM orders WHERE customer > 0 ORDER BY id"
    )


@pytest.mark.parametrize("maker", ["sessionmaker", "engine.connect", "pymysql.connect"])
def test_a_function_that_makes_new_connections_is_refused(gate, sql, maker):
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@127.0.0.1:{gate.port}/{gate.database}")
    made = {
        "sessionmaker": sessionmaker(engine),
        "engine.connect": engine.connect,
        "pymysql.connect": lambda: pymysql.connect(**address),
    }
    with pytest.raises(WorkerError, match="another connection each time"):
        Queue("orders", connection=made[maker]).send(customer=1)
    engine.dispose()
    assert sql.rows("SELECT customer FROM orders") == []
