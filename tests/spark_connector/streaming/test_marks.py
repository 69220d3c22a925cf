"""The connector writes leases by itself, in the transaction that records a claim. Its marks are the engine's.

It is a distribution of its own and imports nothing of the engine, so they are written down twice.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from engine.model import lease_token, marked_name, states
from engine.model.options import QueueOptions, to_comment
from spark_connector.client import queue
from spark_connector.streaming import claims, consumer


@pytest.mark.parametrize("until", [0, 1, 999, 1000, 1001, 1_795_430_045_123_456_789])
def test_a_lease_ends_as_the_engine_writes_it(until):
    assert claims.lease_end(until) == states.lease_end(until)
    assert states.is_lease_end(claims.lease_end(until))


@pytest.mark.parametrize("token", [0, 1, 41, 42, 43, (1 << 53) - 2, (1 << 53) - 1, 1 << 53, (1 << 63) - 1])
def test_a_delivery_is_named_as_the_engine_does(token):
    assert claims.next_token(token, 42) == lease_token.next_token(token, 42)


@pytest.mark.parametrize("table", ["orders", "Orders", "o'r\"d,=é", "x" * 64, "ü" * 40])
@pytest.mark.parametrize("named", ["orders", "o'r\"d,=é", "x" * 64, "ü" * 40])
def test_a_copy_is_none_for_both(named, table):
    comment = marked_name.marked_for("vitess_message,vt_ack_wait=30", named)
    assert queue._is_copied(comment, table) == marked_name.is_copied(comment, table)
    assert not queue._is_copied("vitess_message,vt_ack_wait=30", table)


def test_a_rejected_message_is_set_aside_as_the_engine_does():
    assert claims.REJECTED_NS == states.REJECTED_NS


def test_options_are_read_as_the_engine_keeps_them():
    """Those that the connector asks for by name, and no other way."""
    chosen = QueueOptions(max_attempts=5, paused=True, order_key=("user_id",), max_rate=Decimal(3), max_concurrency=2)
    kept = queue._options(to_comment(chosen))
    assert (kept["max_attempts"], kept["paused"]) == ("5", "1")
    assert set(consumer._BY_THE_PROXY) <= kept.keys()
    assert not set(consumer._BY_THE_PROXY) & queue._options(to_comment(QueueOptions())).keys()
