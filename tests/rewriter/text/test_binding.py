"""Values in the place of placeholders."""

from __future__ import annotations

import pytest

from rewriter.text.binding import bound_text


@pytest.mark.parametrize(
    ("text", "literals", "bound"),
    [
        ("ACK q WHERE id = ? AND n IN (?,?)", ["1", "'a'", "-2"], "ACK q WHERE id = 1 AND n IN ('a',-2)"),
        ("ACK q WHERE id=?OR n=?", ["1", "2.5"], "ACK q WHERE id=1 OR n=2.5"),
        ("ACK q WHERE n=x?", ["'41'"], "ACK q WHERE n=x '41'"),
        ("ACK q WHERE n='a'?", ["'b'"], "ACK q WHERE n='a' 'b'"),
        ("ACK q WHERE n=-?", ["-1"], "ACK q WHERE n=- -1"),
        ("ACK q WHERE n=`a`?", ["1"], "ACK q WHERE n=`a` 1"),
        ("ACK q WHERE n='?' OR id = ? -- ?", ["1"], "ACK q WHERE n='?' OR id = 1 -- ?"),
    ],
)
def test_a_literal_is_a_token_of_its_own_as_the_placeholder_was(text: str, literals: list[str], bound: str) -> None:
    assert bound_text(text, literals) == bound


def test_a_backslash_that_escapes_nothing_is_passed_over() -> None:
    modes = ["NO_BACKSLASH_ESCAPES"]
    assert bound_text("NACK q ? REASON 'C:\\'", ["1"], modes) == "NACK q 1 REASON 'C:\\'"
