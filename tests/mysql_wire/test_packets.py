"""Large payloads in pieces: the same bytes as framed at once, none of the pieces large."""

from __future__ import annotations

import pytest

from mysql_wire.packets import PAYLOAD_MAX, PIECE_BYTES, frame, pieces


@pytest.mark.parametrize(
    "size",
    [0, 1, *(n + d for n in (PIECE_BYTES, PAYLOAD_MAX) for d in (-1, 0, 1)), 2 * PAYLOAD_MAX],
)
@pytest.mark.parametrize("seq", [0, 255])
def test_pieces_are_the_frame(size: int, seq: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    cut = list(pieces(payload, seq))
    assert b"".join(cut) == frame(payload, seq)
    assert max(map(len, cut)) <= PIECE_BYTES + 4
