"""A task that ends its process, with `acks_late` and `task_reject_on_worker_lost`: one dead letter, no innocent task.

With prefork Celery's main process tells that a child was lost (a requeue, which counts). Where the task runs in the
main process, or takes it along, nobody tells: the connection is gone, with all that it held. A supervisor starts the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from celery_workers import Shop, Worker
from servers import Gate, wait_until

pytestmark = pytest.mark.long

COUNT = 12
DEADLINE_SECONDS = 240.0
QUEUE = {"max_attempts": 3, "min_backoff": 0, "max_backoff": "100ms"}


@pytest.fixture
def gate_here(shared_gate: Callable[..., Gate]) -> Gate:
    return shared_gate()


@pytest.fixture
def poisoned(gate_here: Gate, shops: Callable[..., Shop]) -> Iterator[Callable[..., Shop]]:
    """Makes a queue of innocent tasks, and one in the midst of them that is deadly."""
    made = []

    def make(queue: str, deadly: str) -> Shop:
        shop = shops(gate_here)
        shop.sql(f"DROP QUEUE IF EXISTS {queue}")
        made.append((shop, queue))
        before = shop.app.conf.broker_transport_options
        shop.app.conf.broker_transport_options = {**before, "queue_options": QUEUE}
        for n in range(COUNT):
            if n == COUNT // 3:
                shop.send(deadly, f"{queue} deadly", queue=queue)
            shop.send("innocent", f"{queue} {n}", queue=queue)
        return shop

    yield make
    for shop, queue in made:
        for name in (queue, f"{queue}_dead"):
            shop.sql(f"DROP QUEUE IF EXISTS {name}")


def until_all_is_settled(shop: Shop, queue: str, start: Callable[[], Worker], deaths_max: int) -> int:
    """How many workers died. Another takes the place of each."""
    workers = [start()]

    def settled() -> bool:
        if workers[-1].process.poll() is not None:
            assert len(workers) <= deaths_max, workers[-1].log
            workers.append(start())
        return not shop.sql.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NULL")

    wait_until(settled, DEADLINE_SECONDS, "all tasks to be settled")
    return len(workers) - 1


def only_the_poison_died(shop: Shop, queue: str) -> None:
    wait_until(lambda: shop.sql.rows(f"SHOW TABLES LIKE '{queue}_dead'"), what="the dead-letter queue")
    wait_until(lambda: shop.sql.rows(f"SELECT id FROM {queue}_dead"), what="the dead letter")
    dead = shop.sql.rows(f"SELECT task, attempts FROM {queue}_dead")
    assert len(dead) == 1 and dead[0][0].startswith("celery_shop.deadly") and dead[0][1] == 3, dead
    assert sorted(set(shop.notes(f"{queue} %"))) == sorted([f"{queue} {n}" for n in range(COUNT)] + [f"{queue} deadly"])


@pytest.mark.parametrize("task", ["deadly", "deadly_kill"])
def test_a_child_that_ends(gate_here, poisoned, worker, task):
    queue = f"poison_{task}"
    shop = poisoned(queue, task)
    died = until_all_is_settled(shop, queue, lambda: worker(gate_here, "-c", "4", "-Q", queue), deaths_max=0)
    assert died == 0
    only_the_poison_died(shop, queue)
    assert len(shop.notes(f"{queue} deadly")) == 3


@pytest.mark.parametrize("pool", ["solo", "threads", "prefork"])
def test_a_worker_that_ends_with_its_task(gate_here, poisoned, worker, pool):
    queue = f"poison_{pool}"
    shop = poisoned(queue, "deadly_parent" if pool == "prefork" else "deadly")
    died = until_all_is_settled(
        shop, queue, lambda: worker(gate_here, "-P", pool, "-c", "4", "-Q", queue), deaths_max=4
    )
    assert died in (3, 4)
    only_the_poison_died(shop, queue)
