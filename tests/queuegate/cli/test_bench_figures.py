"""What a benchmark says: rates over the time of all clients, latencies by number, what was lost and what came twice."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

import pytest

from queuegate.cli.bench.figures import (
    BenchResult,
    ClientResult,
    DeliveryErrors,
    Load,
    Speed,
    delivery_errors,
    latencies,
    percentile,
    result_lines,
    result_object,
    speed,
    spread_ms,
)

LOAD = Load(2.0, 1, 3, 10, 200, 50.0)
PLACE = {"proxy": "127.0.0.1:3307", "database": "main"}


def told(
    *numbers: int,
    first: float = 0.0,
    last: float = 1.0,
    busy: float = 0.1,
    sent: Sequence[float] = (),
    done: Sequence[float] = (),
    waited: bool = False,
) -> ClientResult:
    return ClientResult(array("q", numbers), first, last, busy, array("d", sent), array("d", done), waited)


def test_speed_is_of_all_clients_from_the_first_to_the_last():
    found = speed([told(1, 2, first=10.0, last=11.0, busy=0.3), told(3, first=10.5, last=12.0, busy=0.7), told(last=0)])
    assert found == Speed(3, 12.0, 0.7)
    assert Speed(0, 0.0, 0.0).per_second == 0 and Speed(6, 3.0, 0).per_second == 2


@pytest.mark.parametrize(
    ("came", "waited", "unsettled", "expected"),
    [
        ([(1, 2), (3,)], True, 0, DeliveryErrors(0, 0)),
        ([(1, 2), (2, 3, 2)], True, 0, DeliveryErrors(0, 2)),
        ([(1,), (3,)], False, 1, DeliveryErrors(0, 0)),  # there was no time for 2, and it is in the table
        ([(1,), (3,)], True, 1, DeliveryErrors(1, 0)),  # it is there, and nobody got it, though all waited
        ([(1,), ()], False, 1, DeliveryErrors(1, 0)),  # two did not come, and the table has one of them
        ([(), ()], True, 0, DeliveryErrors(3, 0)),
        ([(1, 1), ()], True, 0, DeliveryErrors(2, 1)),  # twice does not make up for lost
    ],
)
def test_what_is_lost_and_what_came_twice(came, waited, unsettled, expected):
    assert delivery_errors([told(1, 2), told(3)], [told(*each, waited=waited) for each in came], unsettled) == expected


def test_one_consumer_that_was_busy_to_the_end_excuses_what_is_left():
    assert delivery_errors([told(1, 2)], [told(1), told(waited=True)], 1) == DeliveryErrors(0, 0)


def test_latencies_go_by_number_and_by_the_first_delivery():
    senders = [told(1, 2, sent=[1.0, 2.0], done=[1.5, 2.5]), told(9, 10, sent=[3.0, 4.0], done=[3.25, 4.5])]
    receivers = [told(2, 9, done=[2.75, 3.125]), told(2, 1, done=[9.0, 1.75])]
    from_commit, from_send = latencies(senders, receivers)
    assert from_commit == [0.25, 0.25, 0.0]  # 9 was there before its INSERT had returned; 10 never came
    assert from_send == [0.75, 0.75, 0.125]


def test_percentiles_are_values_that_were_measured():
    hundred = [float(n) for n in range(1, 101)]
    assert [percentile(hundred, percent) for percent in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert [percentile([7.0], percent) for percent in (0, 50, 99)] == [7, 7, 7]
    assert spread_ms([0.003, 0.001, 0.002]) == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert spread_ms([]) == {"p50": None, "p95": None, "p99": None, "max": None}


def test_lines_and_object_say_the_same():
    found = BenchResult(
        Speed(3000, 2.0, 0.95),
        Speed(2000, 2.0, 0.5),
        1000,
        Speed(100, 2.0, 0.1),
        [0.002],
        [0.004],
        DeliveryErrors(1, 2),
    )
    text = "\n".join(result_lines(found, LOAD, PLACE))
    rates = ("1,500/s", "1,000/s", "1000 not received before the end", "p99 2.0 ms", "max 4.0 ms", "50.0/s")
    for part in ("1 producer, 3 consumers, batches of 10, 200 bytes", *rates):
        assert part in text, part
    assert "The producers were busy themselves (95% of a processor)" in text and "The consumers" not in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(("lost", "came"))] == ["1", "2"]
    made = result_object(found, LOAD, PLACE)
    assert json.loads(json.dumps(made)) == made
    assert (made["inserts"]["per_second"], made["receives"]["per_second"], made["receives"]["left"]) == (
        1500,
        1000,
        1000,
    )
    assert made["latency"]["commit_to_delivery_ms"]["p50"] == 2.0
    assert (made["lost"], made["twice"], made["database"]) == (1, 2, "main")


def test_nothing_measured_is_shown_as_such():
    nothing = BenchResult(Speed(0, 0, 0), Speed(0, 0, 0), 0, Speed(0, 0, 0), [], [], DeliveryErrors(0, 0))
    assert "p50 -" in "\n".join(result_lines(nothing, LOAD, PLACE))
    assert result_object(nothing, LOAD, PLACE)["latency"]["commit_to_delivery_ms"]["max"] is None
