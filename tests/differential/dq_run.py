"""Generated statements on the embedded backend and on MariaDB, compared.

python tests/differential/dq_run.py --queries 100000 --seed 1      # what `make differential` does
python tests/differential/dq_run.py --only 4711 --seed 1           # one case again, with its statements
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent), str(Path(__file__).parents[2])]

from dq_compare import Tally, embedded, play, prepare  # noqa: E402
from dq_grammar import case  # noqa: E402
from servers import MariaDb  # noqa: E402

DIFFERENCES_MAX = 200  # shown of a run; with more it is of no use to go on


async def compare(server: MariaDb, seed: int, numbers: range, said: bool = True) -> Tally:
    """Play the cases of those numbers."""
    tally = Tally()
    connection = server.connect(charset="utf8mb4")
    with tempfile.TemporaryDirectory() as folder:
        async with embedded(Path(folder) / "generated.db") as one:
            other = prepare(connection)
            began = last = time.monotonic()
            for number in numbers:
                await play(case(seed, number), one, other, tally, str(number))
                if said and time.monotonic() - last > 10:
                    last = time.monotonic()
                    print(f"{tally.cases} cases in {last - began:.0f} s, {len(tally.differences)} differ", flush=True)
                if len(tally.differences) >= DIFFERENCES_MAX:
                    break
    connection.close()
    return tally


def report(tally: Tally) -> str:
    refused = sum(tally.refused.values())
    lines = tally.differences + [
        f"{count:6} refused: {reason}" for reason, count in sorted(tally.refused.items(), key=lambda one: -one[1])
    ]
    share = f"{100 * refused / max(1, tally.cases):.2f} %"
    total = f"{tally.cases} cases: {tally.agreed} agree ({tally.failed} statements by their error)"
    return "\n".join([*lines, f"{total}, {refused} refused ({share}), {len(tally.differences)} differ"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.queries)
    if given.only is not None:
        numbers = range(given.only, given.only + 1)
        print("\n".join(case(given.seed, given.only).statements))
    server = MariaDb()
    try:
        server.install()
        server.start()
        server.prepare()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")  # nothing here is to survive a crash
        tally = asyncio.run(compare(server, given.seed, numbers))
    finally:
        server.remove()
    print(report(tally))
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
