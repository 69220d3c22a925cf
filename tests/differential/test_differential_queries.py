"""A share of the generated statements in every run of the tests. `make differential` plays a hundred thousand."""

from __future__ import annotations

import pytest
from dq_grammar import case
from dq_run import compare, report
from servers import MariaDb

pytestmark = pytest.mark.long

CASES = 400
REFUSED_MAX = 0.02  # of the cases: a generator whose statements are refused proves nothing


@pytest.mark.parametrize("seed", [1, 2])
async def test_generated_statements_agree(mariadb: MariaDb, seed: int) -> None:
    """Rows, columns, counts, insert ids, warnings and errors are MariaDB's, or the answer is 1235."""
    tally = await compare(mariadb, seed, range(CASES), said=False)
    assert not tally.differences, report(tally)
    assert tally.cases == CASES
    assert sum(tally.refused.values()) <= REFUSED_MAX * CASES, report(tally)
    assert tally.failed < CASES / 10, "most statements end in an error: too little is compared"


def test_a_number_is_a_case() -> None:
    assert case(1, 7) == case(1, 7)
    assert case(1, 7) != case(2, 7)


def test_all_kinds_of_statements_are_made() -> None:
    texts = " ".join(text for number in range(CASES) for text in case(1, number).statements)
    words = ("UNION", "INTERSECT", "EXCEPT", "OVER", "REPLACE", "IGNORE", "HAVING", "EXISTS", "RECURSIVE", "DELETE")
    assert not [word for word in words if word not in texts]
    assert "ON DUPLICATE KEY UPDATE" in texts and "INSERT INTO a (id, k" in texts
