"""`||` as the operator that joins strings: sql_mode PIPES_AS_CONCAT.

The parser reads MySQL's `||` as OR, which binds loosest of all. With the mode it binds tighter than `*`. So before
parsing it is written as `<->`, an operator of another dialect that MySQL does not have and that has the precedence of
`*`; where the two would bind differently, an error asks for parentheses.
"""

from __future__ import annotations

import re

from embedded.compile.errors import unsupported
from embedded.compile.text.literal_lifting import syntax_error
from embedded.compile.text.modes import Modes

OPERATOR = "<->"
_PIPES = re.compile(r"(`(?:[^`]|``)*`)|\|\|")
_REAL = re.compile(r"`(?:[^`]|``)*`|\b(REAL)\b", re.IGNORECASE)


def with_concat_operator(shape: str, modes: Modes) -> str:
    """The shape of a statement as it is to be parsed under these modes.

    Raises:
        SqlSyntaxError: it has the other dialect's operator itself.
    """
    if OPERATOR in shape:
        raise syntax_error(shape[shape.index(OPERATOR) :])
    if not modes.pipes_as_concat or "||" not in shape:
        return shape
    return _PIPES.sub(lambda match: match[1] or OPERATOR, shape)


def check_modes(shape: str, modes: Modes) -> None:
    """What a definition stores is parsed again in sessions with other modes.

    Raises:
        UnsupportedSql: it contains `||` or REAL, to which this session's modes give another meaning.
    """
    if modes.pipes_as_concat and any(match[1] is None for match in _PIPES.finditer(shape)):
        raise unsupported("|| in a definition with PIPES_AS_CONCAT", "use CONCAT() or OR")
    if modes.real_as_float and any(match[1] is not None for match in _REAL.finditer(shape)):
        raise unsupported("REAL with REAL_AS_FLOAT", "write FLOAT or DOUBLE")
