"""The column for lease tokens in a table of claims that an earlier version has made."""

from __future__ import annotations

import pymysql
import pytest

from spark_connector.errors import QueueError
from spark_connector.streaming import claims


class Refusing:
    """A connection on which the column is not there, and cannot be added."""

    def __init__(self, number: int) -> None:
        self._number = number

    def value(self, sql: str, args: tuple[str, ...]) -> int:
        return 0

    def execute(self, sql: str) -> int:
        assert sql.startswith("ALTER TABLE `queuegate_spark_claims_q` ADD COLUMN token ")
        raise pymysql.err.OperationalError(self._number, "refused")


@pytest.mark.parametrize("number", [1044, 1142])
def test_who_may_not_add_it_is_told_the_statement(number):
    with pytest.raises(QueueError, match="may not add it: ALTER TABLE queuegate_spark_claims_q ADD COLUMN token"):
        claims._add_tokens(Refusing(number), "queuegate_spark_claims_q")


def test_another_query_may_have_been_quicker():
    claims._add_tokens(Refusing(1060), "queuegate_spark_claims_q")


@pytest.mark.parametrize("number", [1205, 2013])
def test_a_connection_that_breaks_is_no_missing_right(number):
    """Whoever asks again when a connection broke can do so."""
    with pytest.raises(pymysql.err.OperationalError) as refused:
        claims._add_tokens(Refusing(number), "queuegate_spark_claims_q")
    assert refused.value.args[0] == number
