"""A NUL ends a statement for MySQL and MariaDB."""

from __future__ import annotations

import time

import pytest

from rewriter.errors import SqlSyntaxError
from rewriter.text.tokens import cut_at_nul, tokenize


@pytest.mark.parametrize("text", ["ACK q\0 1", "ACK q 1\0, 2", "\0ACK q 1", "SELECT id FROM STREAM q\0 LIMIT 1"])
def test_nothing_comes_after_it(text):
    with pytest.raises(SqlSyntaxError, match="NUL"):
        tokenize(text)


@pytest.mark.parametrize(
    "text", ["ACK q 1\0", "ACK q 1\0 \0;", "ACK q '1\0'", "ACK q /* \0 */ 1", "ACK q 1 -- \0", 'ACK q "a\\"\0"']
)
def test_at_the_end_and_in_quotes_it_is_none(text):
    assert [token.text for token in tokenize(text)][:2] == ["ACK", "q"]


@pytest.mark.parametrize("piece", ["/*", "'", '"', "`", "'\\", "-- ", "#", "''"])
def test_looking_takes_time_in_line_with_the_text(piece):
    began = time.process_time()
    cut_at_nul("\0x" + piece * 300_000)
    assert time.process_time() - began < 5
