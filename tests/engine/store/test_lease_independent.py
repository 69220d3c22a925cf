"""Which generated columns do not depend on the lease, by the text of SHOW CREATE TABLE of MariaDB and MySQL."""

from __future__ import annotations

import pytest

from engine.store.catalog import lease_independent


def table(*columns: str) -> str:
    return "CREATE TABLE `q` (\n  `id` bigint(20) NOT NULL,\n" + "".join(f"  {each},\n" for each in columns) + ")"


def generated(expression: str, name: str = "g") -> str:
    return f"`{name}` int(11) GENERATED ALWAYS AS ({expression}) VIRTUAL"


@pytest.mark.parametrize(
    "expression",
    [
        "if(`time_acked` is null,`k`,NULL)",
        "`k` + 1",
        "json_extract(`body`,'$.epoch')",
        "concat('it''s',`k`)",
        "`epoch2`",
    ],
)
def test_what_names_no_column_of_the_lease_does_not_depend_on_it(expression):
    assert lease_independent(table("`k` int(11)", generated(expression)), {"g"}) == {"g"}


@pytest.mark.parametrize(
    "expression",
    ["`epoch`", "`EPOCH` + 1", "`k` + `time_next`", "`lease_token`", "`h`", "concat('a", "if(`state` = 'fired',1,0)"],
)
def test_what_names_one_or_cannot_be_read_may_depend_on_it(expression):
    text = table(generated(expression), generated("`k`", "h"), "`state` varchar(9) GENERATED ALWAYS AS ('x') STORED")
    assert "g" not in lease_independent(text, {"g", "h", "state"})


def test_what_is_not_in_the_text_once_may_depend_on_it():
    assert lease_independent(None, {"g"}) == set()
    assert lease_independent(table("`k` int(11)"), {"g"}) == set()
    assert lease_independent(table("`g` int(11)"), {"g"}) == set()
    twice = table(generated("`k`"), "`x` varchar(99) DEFAULT 'a\n  " + generated("`k`"))
    assert lease_independent(twice, {"g"}) == set()
