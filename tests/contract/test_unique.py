"""The patterns of docs/unique-messages.md: once per key while it waits, once per period, replaced while it waits."""

from __future__ import annotations

import re

import pymysql
import pytest
from servers import ROOT, wait_until

pytestmark = pytest.mark.no_proxy_accounts

TEXT = (ROOT / "docs" / "unique-messages.md").read_text()
BLOCKS = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


def pattern(sql, name):
    """Makes the queue of a pattern of the document; gives the INSERT that follows."""
    (block,) = [block for block in BLOCKS if f"CREATE QUEUE {name} " in block]
    statements = [part.strip() for part in re.sub(r" -- .*", "", block).split(";") if part.strip()]
    sql(f"DROP QUEUE IF EXISTS {name}")
    made, insert = statements
    sql(made)
    return insert


@pytest.fixture(autouse=True)
def none_left(sql):
    yield
    for name in ("refreshes", "digests", "reindexing"):
        sql(f"DROP QUEUE IF EXISTS {name}")


def test_once_while_it_is_not_acked(sql):
    insert = pattern(sql, "refreshes")
    assert (sql(insert), sql(insert)) == (1, 0)
    assert sql.column("SELECT id FROM STREAM refreshes LIMIT 9 WAIT 10") == [1]
    assert sql(insert) == 0  # also while it is handled
    assert sql("ACK refreshes 1") == 1
    assert sql(insert) == 1
    assert len(sql.column("SELECT id FROM STREAM refreshes LIMIT 9 WAIT 10")) == 1
    with pytest.raises(pymysql.err.IntegrityError):
        sql(insert.replace("INSERT IGNORE", "INSERT"))


def test_a_message_of_another_key_is_another_message(sql):
    insert = pattern(sql, "refreshes")
    assert sql(insert) == 1
    assert sql(insert.replace("7", "8")) == 1


def test_a_dead_letter_frees_its_key(sql):
    insert = pattern(sql, "refreshes")
    assert sql(insert) == 1
    assert sql("REJECT refreshes 1") == 1
    wait_until(lambda: sql(insert) == 1, what="the key to be free")
    sql("DROP QUEUE refreshes_dead")


def test_once_in_a_day(sql):
    insert = pattern(sql, "digests")
    assert (sql(insert), sql(insert)) == (1, 0)
    assert sql.column("SELECT customer FROM STREAM digests LIMIT 9 WAIT 10") == [7]
    assert sql("ACK digests WHERE customer = 7") == 1
    assert sql(insert) == 0  # today's was handled
    assert sql(insert.replace("CURRENT_DATE", "'2031-05-17'")) == 1


def test_the_newest_while_it_waits(sql):
    insert = pattern(sql, "reindexing")
    assert sql(insert) == 1
    later = insert.replace("'red'", "'blue'")
    assert sql(later) == 2  # one that was there, changed
    assert sql.rows("SELECT product, colour FROM STREAM reindexing LIMIT 9 WAIT 10") == [(7, "blue")]
    assert sql(insert) == 2  # it is being handled: the change waits in its row
    assert sql.rows("SELECT product, colour FROM STREAM reindexing LIMIT 9 NOWAIT") == []
    assert sql("ACK reindexing WHERE id = 1 AND version = 2") == 0  # so it is not done with
    assert sql("RELEASE reindexing 1") == 1
    assert sql.rows("SELECT colour, version FROM STREAM reindexing LIMIT 9 WAIT 10") == [("red", 3)]
    assert sql("ACK reindexing WHERE id = 1 AND version = 3") == 1
    assert sql(insert) == 1
