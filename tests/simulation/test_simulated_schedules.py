"""An hour of schedules with three proxies that are killed again and again: each tick once. And that it would be seen if
it were not so."""

from __future__ import annotations

import pytest
from sim_schedules import ScheduleWorld

from engine.store.statements.schedules import ScheduleStatements

SECONDS = 3640.0  # an hour and what comes late in it

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited:RuntimeWarning"
    ),
    pytest.mark.timeout(600),
]


def hour(seed, count, *, row_locks, **options):
    world = ScheduleWorld(seed, count, row_locks=row_locks, **options)
    try:
        world.run(SECONDS)
        assert not world.faults_heard
        return world.sent(), world.wanted(3600.0)
    finally:
        world.close()


@pytest.mark.long
@pytest.mark.parametrize("row_locks", [False, True], ids=["gate", "row locks"])
def test_a_thousand_schedules_three_proxies_and_kills(row_locks):
    sent, wanted = hour(1, 1000, row_locks=row_locks)
    assert sum(map(len, wanted.values())) > 10_000
    assert sent == wanted


@pytest.mark.parametrize(
    ("seed", "kills"), [(2, 100), (3, 100), *(pytest.param(seed, 400, marks=pytest.mark.long) for seed in range(2, 5))]
)
def test_fewer_schedules_and_many_more_kills(seed, kills):
    sent, wanted = hour(seed, 60, row_locks=seed % 2 == 0, kills=kills)
    assert sent == wanted


def test_without_the_guard_it_is_seen(monkeypatch):
    real = ScheduleStatements.__init__

    def unguarded(self, *args):
        real(self, *args)
        self.advance = self.advance.replace("next_tick = ? AND", "COALESCE(?, 0) >= 0 AND")

    monkeypatch.setattr(ScheduleStatements, "__init__", unguarded)
    sent, wanted = hour(3, 60, row_locks=True, kills=100)
    assert sent != wanted
