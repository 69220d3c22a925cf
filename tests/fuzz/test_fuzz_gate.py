"""A share of the fuzzer in every run of the tests, with the same seeds each time. `make fuzz` draws new ones.

It plays a million. A failing input is kept in `fuzz-failures` and replayed as its first line says.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fuzz_paths  # noqa: F401
import pytest
from fuzz_input import dump
from fuzz_run import WORLD_INPUTS, Fuzzer
from fuzz_sockets import BATCH, Attack
from servers import Gate

DRAWN = [int(os.environ["FUZZ_SEED"])] if "FUZZ_SEED" in os.environ else []
SEEDS = DRAWN or [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
INPUTS = {"relay": 600, "proxy": 300, "embedded": 300}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_is_sent_does_harm(kind: str, seed: int, tmp_path: Path) -> None:
    fuzzer = Fuzzer(seed, kind)
    size = min(WORLD_INPUTS[kind], 200)
    for start in range(0, INPUTS[kind], size):
        failed = fuzzer.run(range(start, start + size))
        if failed is not None:
            inputs, complaints = failed
            path = tmp_path / "failed.txt"
            path.write_text(dump(inputs))
            pytest.fail(f"seed {seed}: {complaints}\nreplay: python tests/fuzz/fuzz_run.py --replay {path}")


@pytest.mark.parametrize("seed", DRAWN or [3])
def test_nothing_that_is_sent_over_sockets_does_harm(new_gate: Callable[..., Gate], seed: int) -> None:
    gate = new_gate(limits={"login_failures": 0})
    gate.start()
    corpus = "embedded" if gate.embedded else "mariadb"
    assert sum(Attack(gate, corpus, seed).run(range(3 * BATCH))) == 3 * BATCH
