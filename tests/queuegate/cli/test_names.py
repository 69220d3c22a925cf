"""Names on the command line: `queue` or `database.queue`, and quoted by the one function that quotes."""

from __future__ import annotations

import pytest

from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef, read_name


@pytest.mark.parametrize(
    ("text", "name", "sql"),
    [
        ("jobs", QueueRef("jobs"), "`jobs`"),
        ("shop.jobs", QueueRef("jobs", "shop"), "`shop`.`jobs`"),
        ("`a.b`", QueueRef("a.b"), "`a.b`"),
        ("`a.b`.`c``d`", QueueRef("c`d", "a.b"), "`a.b`.`c``d`"),
        ("shop.`q.1`", QueueRef("q.1", "shop"), "`shop`.`q.1`"),
        ("`q``; DROP TABLE t; -- `", QueueRef("q`; DROP TABLE t; -- "), "`q``; DROP TABLE t; -- `"),
        ("q' OR 1=1", QueueRef("q' OR 1=1"), "`q' OR 1=1`"),
    ],
)
def test_names_are_read_and_quoted(text, name, sql):
    assert read_name(text) == name
    assert name.sql == sql


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "`a", "`a`b", "``", "`a`.`b`c", "a\0b", "a.b.c", "`a`.b.c", "q`x"]
)
def test_what_is_no_name_is_a_mistake(text):
    with pytest.raises(ConsoleError) as refused:
        read_name(text)
    assert refused.value.status == 2


def test_a_shown_name_does_nothing():
    assert str(QueueRef("a\x1b[31m", "b")) == "b.a\\x1b[31m"
