"""The modes of a ReceiverSet, and what leads from one to another. Pure.

idle      no receiver: nothing is cached, the table is not polled
steady    the cache has everything that was due at the last poll
pending   the table has, or may have, due messages that the cache does not have

A (mode, event) that is not in TRANSITIONS is a defect.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Mode(Enum):
    """See the module."""

    IDLE = "idle"
    STEADY = "steady"
    PENDING = "pending"


class Event(Enum):
    """Leads a receiver set from one mode to another."""

    SUBSCRIBED = "a receiver came"
    LAST_LEFT = "the last receiver left"
    TOUCHED = "a commit touched the queue"
    POLLED_ALL = "a poll returned everything due"
    POLLED_PART = "a poll returned less than is due"
    LOST = "a claim failed or the cache was cut"


TRANSITIONS: Mapping[tuple[Mode, Event], Mode] = {
    (Mode.IDLE, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.IDLE, Event.TOUCHED): Mode.IDLE,
    (Mode.IDLE, Event.POLLED_ALL): Mode.IDLE,
    (Mode.IDLE, Event.POLLED_PART): Mode.IDLE,
    (Mode.IDLE, Event.LOST): Mode.IDLE,
    (Mode.STEADY, Event.SUBSCRIBED): Mode.STEADY,
    (Mode.STEADY, Event.TOUCHED): Mode.PENDING,
    (Mode.STEADY, Event.POLLED_ALL): Mode.STEADY,
    (Mode.STEADY, Event.POLLED_PART): Mode.PENDING,
    (Mode.STEADY, Event.LOST): Mode.PENDING,
    (Mode.STEADY, Event.LAST_LEFT): Mode.IDLE,
    (Mode.PENDING, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.PENDING, Event.TOUCHED): Mode.PENDING,
    (Mode.PENDING, Event.POLLED_ALL): Mode.STEADY,
    (Mode.PENDING, Event.POLLED_PART): Mode.PENDING,
    (Mode.PENDING, Event.LOST): Mode.PENDING,
    (Mode.PENDING, Event.LAST_LEFT): Mode.IDLE,
}
