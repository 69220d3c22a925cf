"""DECIMAL of more than 15 digits: as text that sorts as the numbers do, so SQLite compares and indexes it without help.

`p` or `n` for the sign, two digits for how many digits are before the point, those digits, and after a point the
decimals without trailing zeros. For negative numbers every digit is its complement, and `~` ends the text, so that more
sorts as less.
"""

from __future__ import annotations

from decimal import Decimal

_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def encode(number: Decimal) -> str:
    """The number as sortable text; equal numbers have equal texts."""
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    body = f"{len(whole):02}{whole}.{fraction}"
    if number < 0 and (whole or fraction):
        return f"n{body.translate(_COMPLEMENT)}~"
    return f"p{body}"


def decode(text: str) -> Decimal:
    """The number that `encode` wrote."""
    negative = text[0] == "n"
    body = text[1:-1].translate(_COMPLEMENT) if negative else text[1:]
    number = Decimal(f"0{body[2:]}0")
    # Unary minus would round to the context's precision.
    return number.copy_negate() if negative else number
