"""What an analysis of dead letters says: shapes of JSON, and statements that can be pasted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reading import options
from servers import Gate, Sql, wait_until

from engine.model.queue import default_dead_letter
from spark_connector.client.connection import Client
from spark_connector.client.table_names import dead_letter_name
from spark_connector.jobs.dead_letters.analysis import DeadLetters, Values, shape_of, suggestions, text
from spark_connector.jobs.dead_letters.job import _dead_letter_queue
from spark_connector.jobs.report.values import Counted
from spark_connector.options import queue_address


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (None, None),
        ("plain", None),
        ("5", None),
        ('{"b": 1, "a": "x"}', "{a: string, b: number}"),
        ('{"a": null, "b": true, "c": 1.5}', "{a: null, b: boolean, c: number}"),
        ('[1, 2, "x"]', "[number | string]"),
        ('{"lines": [{"sku": "a"}, {"sku": "b"}]}', "{lines: [{sku: string}]}"),
        ('{"a": {"b": {"c": {"d": 1}}}}', "{a: {b: {c: {...}}}}"),
        ('{"a": ', "not JSON, though it begins so"),
        ('{"a":' * 400 + "1" + "}" * 400, "{a: {a: {a: {...}}}}"),
        ("[" * 400 + "]" * 400, "[[[[...]]]]"),
        ('{"\\ud800": 1}', "{?: number}"),
        ("[" * 100_000, "not JSON, though it begins so"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_shapes(value, shape):
    assert shape_of(value) == shape


def test_errors_that_pass_are_redriven_and_others_looked_at():
    found = suggestions("jobs_dead", (Counted("HTTP 503 from shop", 1200), Counted("bad JSON: it's \\ here", 2)), 3)
    assert found[0].startswith("REDRIVE `jobs_dead` WHERE last_error = 'HTTP 503 from shop'; -- 1,200 messages")
    assert found[1].startswith(r"SELECT * FROM `jobs_dead` WHERE last_error = 'bad JSON: it''s \\ here' LIMIT 5; -- 2")
    assert "last_error IS NULL" in found[2]


def test_long_errors_are_matched_by_their_beginning():
    (found,) = suggestions("d", (Counted("100% timeout_" + "x" * 500, 1),), 0)
    assert r"last_error LIKE '100\\% timeout\\_xxx" in found
    assert "%'; --" in found
    assert len(found) < 300


def test_the_text_has_every_part():
    of = DeadLetters(
        "jobs_dead", 12, 90.0, (Counted("HTTP 503", 12),), (), ((1, 0), (3, 12)), (Counted("under an hour", 12),),
        (Values("payload", 12, (Counted("a", 2),), (Counted("{a: number}", 10),)),), ("REDRIVE ...",), "/export",
    )  # fmt: skip
    said = text(of)
    for part in ("12 messages", "1 m 30 s", "HTTP 503", "{a: number}", "REDRIVE ...", "/export", "under an hour"):
        assert part in said, part
    assert "0 messages" in text(DeadLetters("d", 0, None, (), (), (), (), (), ()))


NAMES = ["jobs", "j" * 59, "j" * 60, "j" * 64, "漢" * 40, "漢" * 64, "é-" * 32, "a b" * 21, "$_" * 30]


@pytest.mark.parametrize("name", NAMES)
def test_dead_letters_are_looked_for_where_the_proxy_puts_them(name):
    assert dead_letter_name(name, {}) == default_dead_letter(name)
    assert dead_letter_name(name, {"dead_letter": "it%27s%20dead"}) == "it's dead"


@pytest.fixture
def of_long_name(gate: Gate, sql: Sql) -> Iterator[tuple[Gate, str]]:
    """A queue whose name leaves no room for `_dead`, with one dead letter."""
    name = "long name, " + "x" * 52
    sql(f"CREATE QUEUE `{name}` (n INT)")
    sql(f"INSERT INTO `{name}` (n) VALUES (1)")
    sql(f"REJECT `{name}` WHERE n = 1")
    dead = default_dead_letter(name)
    wait_until(lambda: dead in sql.column("SHOW QUEUES"), what="the dead letter")
    yield gate, name
    sql(f"DROP QUEUE `{name}`")
    sql(f"DROP QUEUE `{dead}`")


def test_a_queue_of_a_long_name(of_long_name):
    gate, name = of_long_name
    with Client(queue_address(options(gate, name)).address) as client:
        assert _dead_letter_queue(client, name).name == default_dead_letter(name)
