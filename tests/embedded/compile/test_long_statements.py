"""A long statement is cut into pieces before it is read, and means the same."""

from __future__ import annotations

import random
import time

import pytest

from embedded.compile.text import literal_lifting as literals
from embedded.compile.text.literal_lifting import LexicalModes, lift
from rewriter.errors import RewriteError
from rewriter.text.lexis import split_statements
from rewriter.text.long_text import LONG_TEXT, pieces

MODES = [LexicalModes(ansi, raw) for ansi in (False, True) for raw in (False, True)]
PARTS = [
    *(
        "'a'",
        "'it''s'",
        "'a\\'b'",
        '"x"',
        "`n`",
        "x'ab'",
        "_utf8 'a'",
        "12",
        "-- c\n",
        "/* ( */",
        "# d\n",
        ",",
        "(",
        ")",
    ),
    *("a", " ", "@v", ";", "N'a'", "/*!40000 1 */", "'é'", " OR ", " and "),
]
LONG_PARTS = [
    *("'" + "y" * LONG_TEXT + "'", "'" + "''" * LONG_TEXT + "'", "x'" + "ab" * LONG_TEXT + "'"),
    "/*" + "," * LONG_TEXT + "*/",
    *(" 0x" + "aB" * LONG_TEXT + " ", "=0x" + "1f3" * LONG_TEXT + ","),
]


def text_of(seed: int, length: int) -> str:
    chance = random.Random(seed)
    made: list[str] = []
    size = 0
    while size < length:
        part = chance.choice(LONG_PARTS) if chance.random() < 0.0002 else chance.choice(PARTS)
        made.append(part)
        size += len(part)
        if chance.random() < 0.2:
            made.append(" , ")
    return "SELECT " + "".join(made)


@pytest.mark.parametrize("modes", MODES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_in_pieces_it_is_the_same(seed: int, modes: LexicalModes, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(seed, 3 * LONG_TEXT)
    found = outcome(text, modes)
    monkeypatch.setattr(literals, "LONG_TEXT", 1 << 30)
    assert found == outcome(text, modes)


def outcome(text: str, modes: LexicalModes) -> object:
    try:
        lifted = lift(text, None, modes)
    except RewriteError:
        return "refused"
    return "".join(lifted.shape.split()), lifted.values


def test_pieces_are_the_text_and_none_is_long() -> None:
    text = text_of(7, 20 * LONG_TEXT)
    found = list(pieces(text, single=True, double=True))
    assert "".join(text[piece.start : piece.end] for piece in found) == text
    assert max(piece.end - piece.start for piece in found if not piece.token) <= 3 * LONG_TEXT


@pytest.mark.parametrize("seed", range(6))
def test_statements_are_split_at_the_same_places(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(seed, 2 * LONG_TEXT).encode()
    for escapes in (True, False):
        found = split_statements(text, backslash_escapes=escapes)
        with monkeypatch.context() as patched:
            patched.setattr("rewriter.text.lexis.LONG_TEXT", 1 << 30)
            assert found == split_statements(text, backslash_escapes=escapes)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '" + "\\'" * 2_000_000 + "'",
        "SELECT '" + "''" * 2_000_000 + "'",
        "SELECT" + " " * 4_000_000 + "1",
        "SELECT " + "a," * 2_000_000 + "a",
        "SELECT 1" + ";" * 4_000_000,
        "SELECT '" + "\\'" * 2_000_000,
        "SELECT 0x" + "ab" * 2_000_000,
        "SELECT 0x" + "ab" * 2_000_000 + "g",
    ],
    ids=["escapes", "doubled", "spaces", "names", "semicolons", "unclosed", "hexadecimal", "no hexadecimal"],
)
def test_a_hostile_text_of_megabytes_is_read_in_seconds(text: str) -> None:
    began = time.process_time()
    split_statements(text.encode() + b";")
    outcome(text, MODES[0])
    assert time.process_time() - began < 10


def test_a_long_hexadecimal_literal_is_its_bytes() -> None:
    lifted = lift("SELECT 0x" + "f" * (2 * LONG_TEXT + 1) + ", _binary 0x" + "ab" * LONG_TEXT)
    assert lifted.values == (b"\x0f" + b"\xff" * LONG_TEXT, b"\xab" * LONG_TEXT)
    assert lifted.kinds == ("x", "x")
