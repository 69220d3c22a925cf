"""What an analysis of dead letters says: shapes of JSON, and statements that can be pasted."""

from __future__ import annotations

import pytest

from spark_connector.jobs.dead_letters_values import DeadLetters, Values, shape_of, suggestions, text
from spark_connector.jobs.report_values import Counted


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
