"""Searches in messages as SQL, and which verbs are for all messages of a list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE

from console.database import Column, with_values
from console.pages.messages.message_rows import STATES
from console.pages.messages.message_verbs import VERBS, Clauses, Statement, offered_for_state, statement_where
from console.pages.messages.search import TESTS, Search, requested_search, search_sql, searchable
from console.rates import Rates
from console.visits import BadInput, Visit
from engine.model.queue import QueueName
from rewriter.grammar.parse import parse

Q = QueueName("shop", "or`d%ers")
COLUMNS = (
    Column("id", FIELD_TYPE.LONGLONG, True),
    Column("time_next", FIELD_TYPE.LONGLONG, True),
    Column("epoch", FIELD_TYPE.LONGLONG, True),
    Column("n", FIELD_TYPE.LONG, True),
    Column("price", FIELD_TYPE.NEWDECIMAL, True),
    Column("text", FIELD_TYPE.VAR_STRING),
    Column("raw", FIELD_TYPE.VAR_STRING, True),
    Column("doc", FIELD_TYPE.JSON, True),
    Column("where%", FIELD_TYPE.VAR_STRING),
    Column("place", FIELD_TYPE.GEOMETRY, True),
)


def visit(**fields: str) -> Visit:
    session: Any = None  # no search asks for it
    return Visit(session, fields, Rates(), 0.0, "")


def shown(column: str, test: str, value: str = "") -> str:
    return with_values(*search_sql(Search(column, test, value), COLUMNS))


def test_conditions():
    assert shown("n", "is", " 7") == "`n` = 7"
    assert shown("n", "is_not", "7") == "(`n` <> 7 OR `n` IS NULL)"
    assert shown("price", "at_least", "1.50") == "`price` >= '1.50'"
    assert shown("text", "is", "it's") == "`text` = 'it''s'"
    assert shown("text", "contains", "5%") == "LOCATE('5%', `text`) > 0"
    assert shown("text", "begins", "a") == "LOCATE('a', `text`) = 1"
    assert shown("raw", "is", "0x00FF") == "`raw` = X'00ff'"
    assert shown("raw", "is", "0x0") == "`raw` = X'307830'", "no bytes but a text"
    assert shown("doc", "is", "{}") == "CAST(`doc` AS CHAR) = '{}'"
    assert shown("where%", "null") == "`where%` IS NULL"
    assert shown("id", "at_most", "9") == "`id` <= 9"
    assert search_sql(Search(), COLUMNS) == Statement("", ())


def test_columns():
    assert searchable(COLUMNS) == ("id", "epoch", "n", "price", "text", "raw", "doc", "where%")


@given(st.sampled_from(["n", "price", "id"]), st.sampled_from(sorted(TESTS)), st.text(max_size=20))
def test_a_text_is_never_compared_with_a_number(column, test, value):
    try:
        sql = shown(column, test, value)
    except BadInput:
        return
    if test not in ("contains", "begins", "null", "not_null"):
        float(sql.replace(" OR", "").split()[2].strip("')"))


NO_SEARCHES = [{"column": "n", "test": "like"}, {"column": "x" * 65}, {"column": "n", "value": "\0"}]


@pytest.mark.parametrize("given_", NO_SEARCHES)
def test_parameters_that_are_none(given_):
    with pytest.raises(BadInput):
        requested_search(visit(**given_))


def test_parameters():
    assert requested_search(visit()) == Search()
    assert requested_search(visit(test="null", value="x")) == Search(), "no column, no search"
    assert requested_search(visit(column="n")) == Search("n", "is", "")


@pytest.mark.parametrize("verb", VERBS)
def test_statements_that_the_proxy_reads(verb):
    where = search_sql(Search("where%", "is", "7"), COLUMNS)
    found = statement_where(verb, Q, where, Clauses(delay="5m", reason="it's"))
    text = with_values(*found)
    assert text.startswith(f"{verb.upper()} `shop`.`or``d%ers`") and "WHERE `where%` = '7'" in text
    if verb == "nack":
        assert parse(text) is not None


@pytest.mark.parametrize("state", STATES)
def test_verbs_of_a_list(state):
    of_queue, of_dead = offered_for_state(state, dead=False), offered_for_state(state, dead=True)
    assert set(of_queue) <= set(VERBS) and "redrive" not in of_queue
    assert bool(of_queue) == bool(of_dead) == (state not in ("acked", "all"))
