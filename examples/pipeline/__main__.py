"""`make example-spark`: a pipeline from SQL to Spark and back, which checks its own sums and ends by itself.

Orders are enqueued by plain SQL. Spark consumes the queue as a stream, writes Parquet, adds up revenue in an ordinary
table, enqueues big orders in another queue and rejects what cannot be. Then the jobs: archive, report, dead-letters,
replay. The exit code is 1 if a sum is wrong. It starts a private proxy, or takes one by `--url` (its queues and tables
begin with `pipeline_` and are made anew).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from examples.pipeline.flow import Flow
from examples.pipeline.orders import Order, made, sums
from examples.pipeline.shop import AGAIN, BIG, ORDERS, REVENUE, Server, Shop
from spark_connector.jobs.archive.job import archive
from spark_connector.jobs.console import Console
from spark_connector.jobs.dead_letters.analysis import text as dead_letters_text
from spark_connector.jobs.dead_letters.job import dead_letters
from spark_connector.jobs.replay import Chosen, preview, replay
from spark_connector.jobs.report.job import report
from spark_connector.jobs.report.page import page
from spark_connector.jobs.report.text import text
from spark_connector.jobs.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEAD_SECONDS = 30  # for rejected messages to be moved


class WrongSum(Exception):
    """The pipeline lost something, or did something twice."""


class Pipeline:
    """One run."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, orders: Sequence[Order]) -> None:
        self._spark, self._url, self._folder, self._orders = spark, url, folder, orders
        self._good = [order for order in orders if order.good]
        self._name = f"example-{uuid.uuid4().hex[:8]}"
        self._shop = Shop(url)
        self._console = Console(sys.stdout)

    def run(self) -> None:
        """All of it, chapter by chapter."""
        for number, chapter in enumerate(
            (self._enqueue, self._consume, self._archive, self._report, self._dead_letters, self._replay), 1
        ):
            say(f"\n{number}. {(chapter.__doc__ or '').splitlines()[0]}")
            chapter()
        self._shop.close()

    def _enqueue(self) -> None:
        """Orders are enqueued by SQL, 500 in each transaction."""
        started = time.monotonic()
        self._shop.open()
        self._shop.enqueue(self._orders)
        seconds = time.monotonic() - started
        say(f"    {len(self._orders):,} orders in {seconds:.1f} s, {len(self._orders) - len(self._good)} of them bad")

    def _consume(self) -> None:
        """Spark consumes the queue: Parquet, revenue in an ordinary table, big orders in another queue."""
        started = time.monotonic()
        batches = Flow(self._spark, self._url, str(self._folder), self._name).run()
        say(f"    {batches} micro-batches in {time.monotonic() - started:.1f} s")
        revenue = {row[0]: (int(row[1]), int(row[2])) for row in self._shop.rows(f"SELECT * FROM {REVENUE}")}
        for product, (count, cents) in sorted(revenue.items()):
            say(f"    {product:<12} {count:>7,} orders {cents / 100:>14,.2f}")
        check(revenue == sums(self._orders), "the table of revenue is what the shop would have reckoned")
        parquet = self._spark.read.parquet(f"{self._folder}/orders")
        found = parquet.selectExpr("count(*)", "count(DISTINCT order_no)", "sum(cents)").first()
        assert found is not None
        of_good = sum(order.cents for order in self._good)
        check(tuple(found) == (len(self._good), len(self._good), of_good), "Parquet holds each good order once")
        big = self._shop.rows(f"SELECT COUNT(*), COUNT(DISTINCT order_no) FROM {BIG}")[0]
        check(big == (2 * (sum(order.big for order in self._good),))[:2], f"{big[0]} big orders wait in {BIG}")
        left = self._shop.rows(f"SELECT COUNT(*) FROM {ORDERS} WHERE time_acked IS NULL AND time_next < 1 << 62")
        check(left == [(0,)], "every message is acked or rejected")

    def _archive(self) -> None:
        """Acked messages are archived; a second run finds nothing to do."""
        to, path = self._to(ORDERS), str(self._folder / "archive")
        done = archive(self._spark, to, path, margin_seconds=0, console=self._console)
        check(done.messages == len(self._good), f"{done.messages:,} messages archived, read back and compared")
        again = archive(self._spark, to, path, margin_seconds=0, console=self._console)
        check(again.messages == 0, "and none twice")

    def _report(self) -> None:
        """A report, from the queue's table and from its archive."""
        found = report(self._spark, self._to(ORDERS), archive=str(self._folder / "archive"), console=self._console)
        (self._folder / "report.html").write_text(page(found), encoding="utf-8")
        say(indented(text(found)))
        assert found.queue is not None
        check(found.queue.states["acked"] == len(self._good), "nothing counts twice")

    def _dead_letters(self) -> None:
        """What was rejected, and why."""
        bad = len(self._orders) - len(self._good)
        if not bad:
            say("    nothing")
            return
        self._wait_for_dead(bad)
        found = dead_letters(self._spark, self._to(ORDERS), console=self._console)
        say(indented(dead_letters_text(found)))
        check(found.count == bad, f"{bad} dead letters")

    def _wait_for_dead(self, count: int) -> None:
        """The proxy moves them right after REJECT; not in its transaction."""
        deadline = time.monotonic() + _DEAD_SECONDS
        while time.monotonic() < deadline:
            there = self._shop.rows(f"SHOW TABLES LIKE '{ORDERS}\\_dead'")
            if there and self._shop.rows(f"SELECT COUNT(*) FROM {ORDERS}_dead") == [(count,)]:
                return
            time.sleep(0.05)
        raise WrongSum(f"{count} dead letters were not there after {_DEAD_SECONDS} s")

    def _replay(self) -> None:
        """The archived orders of one product, again, in another queue; asked for twice, done once."""
        to, path = self._to(AGAIN), str(self._folder / "archive")
        chosen = Chosen(where="product = 'samovar'")
        expected = sum(order.product == "samovar" for order in self._good)
        check(preview(self._spark, to, path, chosen).messages == expected, f"a dry run says {expected:,}")
        for _ in range(2):
            done = replay(self._spark, to, path, self._name, chosen=chosen, console=self._console)
        check(done.repeated, "the second run of that name adds nothing")
        found = self._shop.rows(f"SELECT COUNT(*), COUNT(DISTINCT order_no), MIN(product) FROM {AGAIN}")
        check(found == [(expected, expected, "samovar")], f"{expected:,} new messages in {AGAIN}")

    def _to(self, queue: str) -> dict[str, str]:
        return {"url": self._url, "queue": queue}


def check(right: bool, text: str) -> None:
    """Says what holds, or stops where it does not."""
    if not right:
        raise WrongSum(text)
    say(f"    -> {text}")


def indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m examples.pipeline", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a proxy that runs, mysql://user@host:port/database; default: a private one")
    parser.add_argument("--orders", type=int, default=20_000, metavar="N", help="how many (default 20000)")
    parser.add_argument("--seed", type=int, default=7, help="of the orders (default 7)")
    parser.add_argument("--folder", type=Path, help="for Parquet, archive and report; default: a new one in /tmp")
    return parser.parse_args(given)


def main() -> int:
    started, given = time.monotonic(), arguments()
    warnings.simplefilter("ignore", FutureWarning)  # of pyspark about pandas
    folder = given.folder or Path(tempfile.mkdtemp(prefix="queuegate-pipeline-"))
    folder.mkdir(parents=True, exist_ok=True)
    server = None if given.url else Server(folder)
    try:
        url = given.url or server.url  # type: ignore[union-attr]
        say(f"queuegate at {url}; files in {folder}")
        with session("pipeline", "local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
            Pipeline(spark, url, folder, list(made(given.orders, given.seed))).run()
    except WrongSum as wrong:
        say(f"\nWRONG: {wrong}")
        return 1
    finally:
        code = server.stop() if server is not None else 0
    say(f"\nAll sums are right, in {time.monotonic() - started:.0f} s. Look at {folder}/report.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
