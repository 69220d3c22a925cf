"""What Spark may do that this connector does not know: an error that says so, in place of a failed assertion."""

from __future__ import annotations

import pytest

from spark_connector.errors import ConnectorError

pytest.importorskip("pyspark", reason="pyspark is an extra")


def test_a_limit_of_a_kind_that_is_not_known():
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from spark_connector.datasource import _row_limit

    assert (_row_limit(ReadMaxRows(5)), _row_limit(ReadAllAvailable())) == (5, None)
    with pytest.raises(ConnectorError, match="bounds a micro-batch"):
        _row_limit(object())


def test_a_commit_of_which_a_task_told_nothing_is_refused():
    from spark_connector.datasource import _all_values, _Message

    assert _all_values([_Message(1), _Message(2)]) == [1, 2]
    with pytest.raises(ConnectorError, match="nothing is published"):
        _all_values([_Message(1), None])


def test_a_task_outside_of_a_query_is_refused():
    from spark_connector.datasource import _query

    with pytest.raises(ConnectorError, match="streaming query"):
        _query()
