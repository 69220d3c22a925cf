"""Random rows, for as long as one likes, through a gate on each backend: what is written and claimed is in random_rows.

    python tests/fuzz/fuzz_rows.py --rounds 1000
    python tests/fuzz/fuzz_rows.py --rounds 50 --seed 7 --backend embedded

A failure tells the seed and the round; the same two give the same rows again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from random import SystemRandom

import fuzz_paths  # noqa: F401
from fuzz_record import gates
from random_rows import ROUNDS, worker_round
from servers import Gate, Sql


def play(gate: Gate, seed: int, number: int) -> None:
    """One round of each kind."""
    sql, writer = Sql(gate.connect()), Sql(gate.connect())
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    for kind, one in ROUNDS.items():
        one(f"{seed}/{number}", sql, writer, f"rows_{kind}_{number}")
    worker_round(f"{seed}/{number}", sql, writer, f"rows_worker_{number}", address)
    sql.close()
    writer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="for each backend")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--backend", choices=("embedded", "mariadb"), action="append")
    given = parser.parse_args()
    seed = SystemRandom().getrandbits(32) if given.seed is None else given.seed
    backends = given.backend or ["embedded", "mariadb"]
    print(f"seed {seed}, {given.rounds} rounds of rows for each of {', '.join(backends)}", flush=True)
    with gates() as running:
        for backend in backends:
            for number in range(given.rounds):
                try:
                    play(running[backend], seed, number)
                except Exception:
                    traceback.print_exc()
                    print(f"FAILED: --seed {seed} --backend {backend}, round {number}")
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
