"""The table of a relay's modes: complete, and kept to."""

from __future__ import annotations

import pytest
from relay_peers import Relay

from proxy.upstream.answer_relay import FOLLOWS, OF_FAST_PATH, SENDING_ANY, WITHOUT_ANSWER, Mode


def test_every_mode_is_reached_and_is_left() -> None:
    reached = {Mode.IDLE}
    while more := {mode for known in reached for mode in FOLLOWS[known]} - reached:
        reached |= more
    assert reached == set(Mode) == FOLLOWS.keys()


def test_an_answer_of_the_fast_path_stays_on_it() -> None:
    """A file that the client sends in the middle of an answer does not change which answer it is."""
    assert FOLLOWS[Mode.SENDING_FILE_FAST] <= OF_FAST_PATH
    assert not FOLLOWS[Mode.SENDING_FILE] & OF_FAST_PATH
    assert not OF_FAST_PATH & (SENDING_ANY | WITHOUT_ANSWER)


async def test_a_mode_out_of_turn_is_a_defect() -> None:
    relay = Relay()
    with pytest.raises(AssertionError, match=r"SENDING_FILE after Mode\.IDLE"):
        relay.upstream._relay.enter(Mode.SENDING_FILE)
