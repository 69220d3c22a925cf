"""Cutting a statement into its ids and what is around them."""

from __future__ import annotations

import pytest

from rewriter.grammar.quick_forms import QuickIds, quick_ids


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("ACK q 1", ("ACK q ", "1", "")),
        ("nack shop.`a b` ( 1 , 2 ) ;", ("nack shop.`a b` ", "1 , 2", "")),
        ("RENEW q 1,2 FOR '5m'", ("RENEW q ", "1,2", " FOR '5m'")),
        ("NACK t 7 GROUP g DELAY 250", ("NACK t ", "7", " GROUP g DELAY 250")),
        ("REJECT `q`5", ("REJECT `q`", "5", "")),
        (" RELEASE\tq\n9 \n;", (" RELEASE\tq\n", "9", "")),
    ],
)
def test_plain_ones_are_cut(sql, parts):
    assert quick_ids(sql) == QuickIds(*parts)


@pytest.mark.parametrize(
    "sql",
    ["ACK q", "ACK q ?", "NACK q '1'", "RENEW q 1.5 FOR '5m'", "NACK q 1 DELAY ?", "NACK q 1 DELAY '5'' m'",
     "NACK q 1 DELAY '5\\'", "NACK q 1 REASON 'x'", "ACK q 1; ACK q 2", "NACK q 1 /* */", "RETRY q NOW", "NACKq 1",
     "ACK q 1234567890123456789", "NACK q 1 DELAY 12345678901", "NACK q 1DELAY 5"],
)  # fmt: skip
def test_others_are_not(sql):
    assert quick_ids(sql) is None


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("ACK q WHERE id = 5 AND lease_token = 7", ("ACK q WHERE ", "5", "", "id = ", " AND lease_token = ", "7")),
        ("nack `q`where `ID` in ( 5 , 6 ) and `epoch`=7 DELAY 5 ;",
         ("nack `q`where ", "5 , 6", " DELAY 5", "`ID` in ( ", " ) and `epoch`=", "7")),
        ("RENEW shop.q WHERE id=5\nAND\tlease_token=7 FOR '5m'",
         ("RENEW shop.q WHERE ", "5", " FOR '5m'", "id=", "\nAND\tlease_token=", "7")),
        ("ACK q WHERE id = 5", ("ACK q WHERE ", "5", "", "id = ")),
        ("NACK q where `id` IN (5,6 ) DELAY 5 ;", ("NACK q where ", "5,6", " DELAY 5", "`id` IN (", " )")),
    ],
)  # fmt: skip
def test_a_condition_of_ids_is_cut(sql, parts):
    assert quick_ids(sql) == QuickIds(*parts)


@pytest.mark.parametrize(
    "sql",
    ["ACK q WHERE id IN (5)7", "ACK q WHERE id = 5 AND epoch = ", "ACK q WHERE id = 5, 6 AND epoch = 1",
     "ACK q WHERE id IN (5 AND epoch = 1",
     "ACK q WHERE id = 5) AND epoch = 1", "ACK q WHERE id = 5 AND epoch = 1 OR 1", "ACK q WHERE id = 5 AND epoch = 1.5",
     "ACK q WHERE id = 5.0 AND epoch = 1", "ACK q WHERE id = ? AND epoch = 1", "ACK q WHERE id = '5' AND epoch = 1",
     "ACK q WHERE id = 5 AND epochs = 1", "ACK q WHERE xid = 5 AND epoch = 1", "ACK qWHERE id = 5 AND epoch = 1",
     "ACK q WHERE id = 5 AND epoch = 1 REASON 'x'", "ACK q WHERE id = 5 /* */ AND epoch = 1", "ACK q 5 AND epoch = 1",
     "ACK q WHERE id = 5 AND epoch = 1234567890123456789", "ACK q WHERE id = 5 OR epoch = 1"],
)  # fmt: skip
def test_another_condition_is_not(sql):
    assert quick_ids(sql) is None


def test_a_hostile_text_takes_linear_time():
    """Possessive parts: what does not match is given up at once."""
    assert quick_ids("NACK " + "a." * 50_000 + " 1") is None
    assert quick_ids("NACK q " + "1," * 50_000) is None
    assert quick_ids("NACK q 1" + " " * 100_000 + "x") is None
    assert quick_ids("ACK q WHERE id IN (" + "1," * 50_000 + ")") is None
    assert quick_ids("ACK q WHERE id = 1 AND epoch = 1" + " " * 100_000 + "x") is None
    assert quick_ids("ACK q WHERE " + "id " * 50_000) is None
