"""What a relay is at, and what may follow."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """The state of a relay. FAST: the answer to a command of the fast path is to come; ANSWERING: to any other."""

    IDLE = "idle"
    FAST = "fast"
    ANSWERING = "answering"
    SENDING = "sending a large command"
    SENDING_UNANSWERED = "sending a large command that has no answer"
    SENDING_FILE = "sending the client's file"
    SENDING_FILE_FAST = "sending the client's file for a command of the fast path"


FOLLOWS = {
    Mode.IDLE: frozenset((Mode.FAST, Mode.ANSWERING, Mode.SENDING, Mode.SENDING_UNANSWERED)),
    Mode.FAST: frozenset((Mode.SENDING_FILE_FAST,)),
    Mode.ANSWERING: frozenset((Mode.SENDING_FILE,)),
    Mode.SENDING: frozenset((Mode.ANSWERING,)),
    Mode.SENDING_UNANSWERED: frozenset[Mode](),
    Mode.SENDING_FILE: frozenset((Mode.ANSWERING,)),
    Mode.SENDING_FILE_FAST: frozenset((Mode.FAST,)),
}
"""Which modes may follow which; IDLE may follow each of them."""

OF_FAST_PATH = frozenset((Mode.FAST, Mode.SENDING_FILE_FAST))
"""The modes of a command of the fast path."""

SENDING_ANY = frozenset((Mode.SENDING, Mode.SENDING_UNANSWERED))
"""Modes in which the server's bytes are buffered until the client has sent everything."""

WITHOUT_ANSWER = frozenset((Mode.IDLE, Mode.SENDING_UNANSWERED))
"""In which no client waits for an answer."""
