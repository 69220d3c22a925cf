"""The page on web frameworks: its programs, word for word, with the frameworks themselves, on both backends."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from servers import ROOT, Sql
from sessions import PORT, sessions
from toolchains import missing

PAGE = ROOT / "docs" / "guide-web.md"
DJANGO = """
import django
from django.conf import settings
settings.configure(
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={{name: {{
        "ENGINE": "django.db.backends.mysql", "HOST": "127.0.0.1", "PORT": "{port}", "NAME": "{database}",
        "USER": "root", "OPTIONS": {{"charset": "utf8mb4"}},
    }} for name in ("default", "queues")}},
)
django.setup()
from django.db import models

class Order(models.Model):
    customer = models.CharField(max_length=200)
    amount = models.IntegerField()
    class Meta:
        app_label = "shop"
        db_table = "orders"

{page}

place_order("ann", 90)
try:
    with transaction.atomic():
        place_order("bob", 10)
        raise ValueError("the view fails")
except ValueError:
    pass
with transaction.atomic():
    later("cid")
"""
FASTAPI = """
{page}

import asyncio

async def posted(query):
    sent = []
    scope = {{"type": "http", "http_version": "1.1", "method": "POST", "path": "/orders", "raw_path": b"/orders",
             "root_path": "", "scheme": "http", "query_string": query, "headers": [], "client": ("127.0.0.1", 1),
             "server": ("127.0.0.1", 80)}}

    async def receive():
        return {{"type": "http.request", "body": b"", "more_body": False}}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]

print(asyncio.run(posted(b"customer=ann&amount=90")))
try:
    asyncio.run(posted(b"customer=bob&amount=0"))
except ValueError as error:
    print(error)
"""


FLASK = """
{page}

with app.test_client() as client:
    print(client.post("/orders?customer=ann").json)
    print(client.post("/orders").status_code)
app.before_request_funcs[None].insert(0, lambda: ("log in first", 401))
with app.test_client() as client:
    print(client.post("/orders").status_code)
"""
STARLETTE = """
{page}

import pymysql
import time

async def main():
    async with lifespan(app):
        with pymysql.connect(host="127.0.0.1", port={port}, user="root", database="{database}", autocommit=True) as db:
            cursor = db.cursor()
            cursor.execute("INSERT INTO mails (recipient) VALUES ('ann')")
            deadline = time.monotonic() + 60
            while not cursor.execute("SELECT recipient FROM sent") and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            print(cursor.fetchall())

asyncio.run(main())
"""


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


@pytest.fixture
def client(gate):
    client = Sql(gate.connect())
    made, *_ = blocks("CREATE QUEUE")
    for statement in made.split(";"):
        if statement.strip():
            client(statement)
    yield client
    client.close()


def blocks(*words):
    """The blocks of the page that have any of these words in them, in their order."""
    return [session.text for session in sessions(PAGE) if any(word in session.text for word in words)]


def run(gate, program, page):
    page = page.replace(f"{PORT}/main", f"{gate.port}/{gate.database}")
    text = program.format(page=page, port=gate.port, database=gate.database)
    done = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_django(gate, client):
    if find_spec("MySQLdb") is None:
        missing("mysqlclient could not be built, by which Django connects")
    run(gate, DJANGO, "\n".join(blocks("django.db", "on_commit")))
    assert client.rows("SELECT id, customer, amount FROM orders") == [(1, "ann", 90)]
    assert client.rows("SELECT recipient, body FROM mails ORDER BY id") == [("ann", "Order 1"), ("cid", "Thank you")]


def test_fastapi(gate, client):
    (page,) = blocks("FastAPI()")
    status, refused = run(gate, FASTAPI, page)
    assert status == "(200, b'{\"order\":1}')"
    assert refused == "an order of nothing"
    assert client.rows("SELECT id, customer, amount FROM orders") == [(1, "ann", 90)]
    assert client.rows("SELECT recipient, body FROM mails") == [("ann", "Order 1")]


def test_flask(gate, client):
    (page,) = blocks("from flask")
    assert run(gate, FLASK, page) == ["{'order': 1}", "400", "401"]
    assert client.rows("SELECT id, customer FROM orders") == [(1, "ann")]
    assert client.rows("SELECT recipient, body FROM mails") == [("ann", "Order 1")]


def test_a_worker_in_the_lifespan_of_starlette(gate, client):
    (page,) = blocks("lifespan=lifespan")
    assert run(gate, STARLETTE, page) == ["(('ann',),)"]


def test_a_model_of_sqlalchemy_on_a_queue(gate, client):
    (page,) = blocks("DeclarativeBase")
    assert run(gate, "{page}", page) == []
    assert client.rows("SELECT recipient, body FROM STREAM mails LIMIT 1") == [("dora@example.com", "Order 4")]
