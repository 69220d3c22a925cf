"""Epochs count deliveries, whatever a client has written there."""

from __future__ import annotations

import sqlite3

import pytest

from engine.model.identity import integer_bounds, next_epoch, next_epoch_sql
from engine.model.queue import ColumnMeta

BIGINT_MAX = (1 << 63) - 1
UNSIGNED = 0x20


@pytest.mark.parametrize("highest", [127, 255, 32767, BIGINT_MAX])
@pytest.mark.parametrize(
    "epoch", [None, -BIGINT_MAX - 1, -1, 0, 1, 126, 127, 128, 254, 255, BIGINT_MAX - 1, BIGINT_MAX]
)
def test_the_next_epoch_is_the_same_in_sql(epoch, highest):
    if epoch is not None and epoch > highest:
        pytest.skip("the column does not hold it")
    found = next_epoch(epoch or 0, highest)
    assert 1 <= found <= highest
    assert found == (epoch or 0) + 1 or found in (highest, 1)
    told = next_epoch_sql(highest)
    database = sqlite3.connect(":memory:")
    ((said, kind),) = database.execute(f"SELECT {told}, typeof({told}) FROM (SELECT ? AS epoch)", (epoch,))
    database.close()
    assert (said, kind) == (found, "integer")


@pytest.mark.parametrize(
    ("type_", "flags", "bounds"),
    [
        (1, 0, (-128, 127)),
        (1, UNSIGNED, (0, 255)),
        (2, 0, (-32768, 32767)),
        (9, UNSIGNED, (0, (1 << 24) - 1)),
        (3, 0, (-(1 << 31), (1 << 31) - 1)),
        (8, UNSIGNED, (0, (1 << 64) - 1)),
        (253, 0, None),
        (13, UNSIGNED, None),  # YEAR
    ],
)
def test_the_bounds_of_a_column(type_, flags, bounds):
    assert integer_bounds(ColumnMeta("epoch", type=type_, flags=flags)) == bounds
