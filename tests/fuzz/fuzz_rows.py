"""Random rows, for as long as one likes, through a gate on each backend: what is written and claimed is in random_rows.

    python tests/fuzz/fuzz_rows.py --rounds 1000
    python tests/fuzz/fuzz_rows.py --rounds 50 --seed 7 --backend embedded

A failure tells the seed and the round; the same two give the same rows again.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom

import fuzz_paths  # noqa: F401
from fuzz_gates import BACKENDS, gates, share_out
from random_rows import ROUNDS, worker_round
from servers import Gate, Sql


def play(gate: Gate, seed: int, number: int) -> None:
    """One round of each kind. That of the tables mostly waits for a tick, so it has the others beside it."""
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    name = f"{seed}/{number}"

    def one(kind: str) -> None:
        sql, writer = Sql(gate.connect()), Sql(gate.connect())
        ROUNDS[kind](name, sql, writer, f"rows_{kind}_{number}")
        sql.close()
        writer.close()

    with ThreadPoolExecutor(1) as pool:
        tables = pool.submit(one, "tables")
        for kind in ROUNDS.keys() - {"tables"}:
            one(kind)
        sql, writer = Sql(gate.connect()), Sql(gate.connect())
        worker_round(name, sql, writer, f"rows_worker_{number}", address)
        sql.close()
        writer.close()
        tables.result()


def rounds(backend: str, seed: int, numbers: range) -> bool:
    """These rounds, on a gate of their own; says what is wrong."""
    with gates((backend,)) as running:
        for number in numbers:
            try:
                play(running[backend], seed, number)
            except Exception:
                traceback.print_exc()
                print(f"FAILED: --seed {seed} --backend {backend}, round {number}", flush=True)
                return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="for each backend")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    given = parser.parse_args()
    seed = SystemRandom().getrandbits(32) if given.seed is None else given.seed
    backends = tuple(given.backend or BACKENDS)
    print(f"seed {seed}, {given.rounds} rounds of rows for each of {', '.join(backends)}", flush=True)
    return 0 if share_out(rounds, seed, given.rounds, backends, given.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
