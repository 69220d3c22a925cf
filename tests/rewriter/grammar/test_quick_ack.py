"""The short way of plain ACKs means what the long way means, and takes nothing that is not plain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriter_catalog import CATALOG

from engine.model.errors import EngineError
from engine.model.options import QueueOptions
from rewriter.errors import RewriteError
from rewriter.grammar import parse
from rewriter.grammar.quick_forms import quick_ack
from rewriter.grammar.statements import Ack
from rewriter.plan import PlanContext
from rewriter.planner import Planner
from rewriter.text.tokens import Name, TokenCursor

PIECES = st.sampled_from(
    ["ACK", "ack ", " ", "\n", "orders", "`orders`", "shop.", "shop . ", "where", "5", " 12", ", ", ",", "(", ")", ";",
     "999999999999999999", "9999999999999999999", "1.5", "0x1", "'7'", "?", "-- x\n", "/* */", "id", "=", "``", "é",
     " group ", " GROUP billing", "BY"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=9).map("".join), st.booleans())
def test_both_ways_read_the_same(rest: str, begins: bool) -> None:
    sql = ("ACK " if begins else "") + rest
    quick = quick_ack(sql)
    if quick is None:
        return
    slow = parse._HANDLERS["ACK"](TokenCursor(sql, ()))
    assert isinstance(slow, Ack)
    assert (slow.name, slow.condition) == (quick.name, "")
    assert [token.text for token in slow.ids] == quick.numbers.replace(" ", "").replace("\n", "").split(",")


@pytest.mark.parametrize(
    "sql",
    ["ACK q 1", "ack q 1,2", " ACK\tq ( 1 , 2 ) ;", "ACK `q`5", "ACK shop.q 1", "ACK `a b` . `c` 1, 2, 3",
     "ACK t 1, 2 GROUP g", "ack `t` (7)\ngroup `g h` ;"],
)  # fmt: skip
def test_plain_ones_go_the_short_way(sql: str) -> None:
    assert quick_ack(sql) is not None


@pytest.mark.parametrize(
    "sql",
    ["ACK q", "ACK q ?", "ACK q '1'", "ACK q 1.5", "ACK q 1 2", "ACK q 1,", "ACK q -1", "ACK q WHERE id = 1",
     "ACK q 1234567890123456789", "ACK q 1; ACK q 2", "ACK q /* */ 1", "ACKq 1", "ACK q1", "UPDATE q SET a = 1",
     "ACK t 1 GROUP", "ACK t 1 GROUP g h", "ACK t 1 GROUP 'g'", "ACK t GROUP g 1", "ACK t 1GROUP g",
     "ACK t 1 GROUP BY"],
)  # fmt: skip
def test_others_go_the_long_way(sql: str) -> None:
    assert quick_ack(sql) is None


def test_a_group_is_read_the_short_way_as_well() -> None:
    assert quick_ack("ACK t 1, 2 GROUP g") == Ack(Name(None, "t", "g"), (), "", "1, 2")
    assert quick_ack("ACK d.t (1) group `G`;") == Ack(Name("d", "t", "G"), (), "", "1")


@pytest.mark.parametrize("queue", [str(name.table) for name in CATALOG.queues])
def test_keys_of_every_kind_get_the_plan_of_the_long_way(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = PlanContext(next(name.database for name in CATALOG.queues if name.table == queue))
    sql = f"ACK {queue} 7, 007, 18"
    quick = _told(sql, context)
    monkeypatch.setattr(parse, "quick_ack", lambda sql: None)
    assert _told(sql, context) == quick


def _told(sql: str, context: PlanContext) -> object:
    try:
        return Planner(CATALOG, QueueOptions()).plan(sql, context)
    except (RewriteError, EngineError) as error:
        return (error.errno, error.message)
