"""Which INSERTs are written with a lease, and how."""

from __future__ import annotations

import pytest
from over import over

from rewriter.plans.leased_insert import LeasedInserts


def leased(sql, *, escapes=True):
    text = LeasedInserts().leased(sql.encode(), 11, 22, backslash_escapes=escapes)
    return None if text is None else text.decode()


COLUMNS, VALUES = ", epoch, time_next, lease_token", ", 1, 11, 22"


@over(
    [
        ("INSERT INTO q (a) VALUES (1", ")"),
        ("insert q(a)values(1", ") ;\n"),
        ("INSERT INTO `d`.`q` (`a`, b) VALUE ( -1.5e3 , 'it''s'", ")"),
        ("INSERT INTO q (priority, a) VALUES (0x1F, NULL", ")"),
        ("INSERT INTO q (a) VALUES ('), (1'", ")"),
        ("INSERT INTO q (a) VALUES ('日本 /* -- \" `'", ")"),
        (r"INSERT INTO q (a) VALUES ('\'), (\'', DEFAULT", ")"),
    ]
)
def test_a_row_of_literals_gets_a_lease(parts):
    row, end = parts
    columns = row.index(")")
    assert leased(row + end) == row[:columns] + COLUMNS + row[columns:] + VALUES + end


@over(
    [
        "INSERT INTO q (a) VALUES (1), (2)",
        "INSERT INTO q (a) VALUES (1, (2))",
        "INSERT INTO q (a) VALUES (NOW())",
        "INSERT INTO q (a) VALUES (1 + 1)",
        "INSERT INTO q (a) VALUES (@a)",
        "INSERT INTO q (a) VALUES (?)",
        'INSERT INTO q (a) VALUES ("x")',
        "INSERT INTO q (a) VALUES ('a' 'b')",
        "INSERT INTO q (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2",
        "INSERT INTO q (a) VALUES (1) RETURNING id",
        "INSERT INTO q (a) VALUES (1) /* comment */",
        "INSERT INTO q (a) VALUES (1); SELECT 1",
        "INSERT INTO q (a) VALUES ('x",
        "INSERT INTO q (a) VALUES (1",
        "INSERT INTO q VALUES (1)",
        "INSERT INTO q () VALUES ()",
        "INSERT INTO q (a) SELECT 1",
        "INSERT INTO q SET a = 1",
        "INSERT IGNORE INTO q (a) VALUES (1)",
        "INSERT INTO q PARTITION (p) (a) VALUES (1)",
        "INSERT INTO q (a, b) VALUES # VALUES ('\n(',',',') #')",
        "INSERT INTO q (a, b) VALUES -- VALUES ('\n(',',',') -- ')",
        "INSERT INTO q (a) VALUES /* VALUES (1) */ (1)",
        "INSERT /* a */ INTO q (a) VALUES (1)",
        "INSERT /*!50000 IGNORE */ INTO q (a) VALUES (1)",
        "INSERT INTO `a VALUES (` (b) VALUES (1)",
        "REPLACE INTO q (a) VALUES (1)",
        *(
            f"INSERT INTO q ({name}, a) VALUES (1, 2)"
            for name in ("id", "ID", "`Epoch`", "time_next", "time_scheduled", "time_acked", "lease_token", "state")
        ),
    ]
)
def test_every_other_form_stays_as_it_is(sql):
    assert leased(sql) is None


def test_whether_a_backslash_escapes_decides_where_the_row_ends():
    one, two = r"INSERT INTO q (a) VALUES ('\')", r"INSERT INTO q (a) VALUES ('\'), ('x')"
    assert leased(one) is None and leased(one, escapes=False) is not None
    assert leased(two, escapes=False) is None
    assert leased(r"INSERT INTO q (a) VALUES ('\\')") is not None


@pytest.mark.parametrize("character", ["\x00", "\xa0"])
def test_what_readers_might_read_differently_is_not_read(character):
    assert leased(f"INSERT INTO q (a) VALUES (1{character})") is None
    assert leased(f"INSERT INTO q (a{character}) VALUES (1)") is None
