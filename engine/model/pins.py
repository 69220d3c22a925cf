"""Pins: which settings of a client's session a statement of queuegate must not depend on."""

from __future__ import annotations

from enum import Enum


class Pins(Enum):
    """Each has what those before it have.

    NOTHING: it is as the client wrote it, or depends on none. ROWS: a row is changed as it is now, whatever the
    transaction's snapshot shows. VERB: and without sql_safe_updates, which is about UPDATE and DELETE that a client
    wrote. UNIT: and without limits on what a SELECT returns, for reads on which what is done next depends.
    """

    NOTHING = "nothing"
    ROWS = "rows"
    VERB = "verb"
    UNIT = "unit"

    __hash__ = object.__hash__  # a member is one object; the hash of Enum is a function of Python
