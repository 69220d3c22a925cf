"""The values of options: how a WITH list gives them, and how the table COMMENT holds them.

A reader takes what was given and raises InvalidOption, which begins with the option's name; a writer gives its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from urllib.parse import quote

from engine.model.errors import InvalidOption

NS_PER_SECOND = 1_000_000_000

_UNIT_NS = {
    "ms": 1_000_000,
    "s": NS_PER_SECOND,
    "m": 60 * NS_PER_SECOND,
    "h": 3600 * NS_PER_SECOND,
    "d": 86400 * NS_PER_SECOND,
}
_NUMBER = r"\+?((?>\d+)(?:\.(?>\d*))?(?:e[+-]?\d{1,4})?|\.(?>\d+)(?:e[+-]?\d{1,4})?)"
"""A number as MySQL reads it: 30, 30.5, .5, 5., 30.0e0. Drivers write floats with an exponent."""
_DURATION = re.compile(rf"\s*{_NUMBER}\s*(ms|s|m|h|d)?\s*", re.ASCII | re.IGNORECASE)
_COUNT = re.compile(rf"\s*{_NUMBER}\s*", re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[\x01-\ud7ff\ue000-\uffff]+(?<! )")
_RATE = re.compile(rf"\s*{_NUMBER}\s*(?:/\s*s)?\s*", re.ASCII | re.IGNORECASE)
_MAX_DURATION_NS = 3650 * _UNIT_NS["d"]  # ten years: beyond it a typing error is likelier than a wish
_STEPS_MAX = 32
_RECEIVERS_WAIT_MAX_NS = 12 * _UNIT_NS["h"]  # as SQS has it
_MIN_WAIT_NS = 10_000_000  # 10 ms: a lease shorter than a round trip only makes duplicates

_FILTER_MAX = 1200  # bytes as the comment holds it, which has room for 2048 characters

_RATE_STEP, _RATE_LIMIT = Decimal("0.000001"), Decimal(1_000_000_000)

NAME_CHARACTERS = 64
"""Of a table's or column's name, as MySQL counts."""

AS_ACK_WAIT = "ack_wait"
"""The value of min_backoff that stands for: as long as ack_wait."""

OptionValue = str | int | float | Decimal


def parse_duration(name: str, value: OptionValue) -> int:
    """Nanoseconds of a duration: a number of seconds in any notation, or text such as '500ms', '30s', '5m', '2h', '1d'.

    Raises:
        InvalidOption: `value` is no duration, or longer than ten years. The message begins with `name`.
    """
    match = _DURATION.fullmatch(str(value))
    if match is None:
        raise InvalidOption(f"{name}: '{value}' is not a duration; give seconds, or '500ms', '30s', '5m', '2h', '1d'")
    nanoseconds = Decimal(match[1]) * _UNIT_NS[(match[2] or "s").lower()]
    if nanoseconds > _MAX_DURATION_NS:  # before it becomes an int, which may have thousands of digits
        raise InvalidOption(f"{name}: '{value}' is longer than ten years")
    return int(nanoseconds)


def parse_wait(name: str, value: OptionValue) -> int:
    """As `parse_duration`, for how long a lease lasts: too short a one is refused."""
    nanoseconds = parse_duration(name, value)
    if nanoseconds < _MIN_WAIT_NS:
        raise InvalidOption(f"{name}: '{value}' is too short; at least 10ms")
    return nanoseconds


def check_receivers_wait(name: str, nanoseconds: int, own_ns: int) -> None:
    """Check how long a receiver may lease messages: half a day, or the queue's own time. Otherwise no other receiver
    could get them for longer. Raises InvalidOption."""
    if nanoseconds > max(_RECEIVERS_WAIT_MAX_NS, own_ns):
        raise InvalidOption(
            f"{name}: a receiver may hold messages for at most 12h, or the queue's ack_wait where that is longer"
            " (ALTER QUEUE ... SET (ack_wait)); RENEW prolongs a lease"
        )


def read_steps(name: str, value: OptionValue) -> tuple[int, ...]:
    """A list of durations, with commas or `|` between them."""
    steps = tuple(parse_duration(name, part) for part in re.split(r"[|,]", str(value)))
    if len(steps) > _STEPS_MAX:
        raise InvalidOption(f"{name}: {len(steps)} durations are too many; up to {_STEPS_MAX}")
    return steps


def steps_text(value: object) -> str:
    """The durations in seconds, with `|` between them."""
    assert isinstance(value, tuple)
    return "|".join(map(seconds_text, value))


def read_min_backoff(name: str, value: OptionValue) -> int | None:
    return None if str(value).strip().lower() == AS_ACK_WAIT else parse_duration(name, value)


def whole_number(minimum: int, maximum: int) -> Callable[[str, OptionValue], int]:
    """A reader of whole numbers within these bounds; it raises InvalidOption."""

    def read(name: str, value: OptionValue) -> int:
        match = _COUNT.fullmatch(str(value))
        number = Decimal(match[1]) if match else None
        if number is None or not minimum <= number <= maximum or number != int(number):
            raise InvalidOption(f"{name}: '{value}' is not a whole number from {minimum} to {maximum}")
        return int(number)

    return read


def read_names(name: str, value: OptionValue) -> tuple[str, ...]:
    return column_names(name, tuple(part.strip() for part in re.split(r"[|,]", str(value))))


def column_names(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    value = "|".join(names)
    if not all(map(is_name, names)):
        raise InvalidOption(f"{name}: '{value}' is not a list of column names separated by '|'")
    if names[0].lower() != "id":
        raise InvalidOption(f"{name} must begin with id: '{value}'")
    if len({part.lower() for part in names}) != len(names):
        raise InvalidOption(f"{name}: '{value}' names a column twice")
    return names


def read_name(name: str, value: OptionValue) -> str:
    return own_name(name, str(value).strip())


def own_name(name: str, text: str) -> str:
    if not is_name(text):
        raise InvalidOption(f"{name}: '{text}' is not a name of 1 to {NAME_CHARACTERS} characters")
    return text


def is_name(text: str) -> bool:
    """Whether a database takes it as a name between back-quotes.

    Databases take no characters beyond U+FFFF; a surrogate is a byte that is no character in the client's charset.
    """
    return 1 <= len(text) <= NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def read_order_key(name: str, value: OptionValue) -> str:
    return "*" if str(value).strip() == "*" else read_name(name, value)


def read_flag(name: str, value: OptionValue) -> bool:
    text = str(value).strip().lower()
    if text not in ("0", "1", "true", "false"):
        raise InvalidOption(f"{name}: '{value}' is neither 1 nor 0")
    return text in ("1", "true")


def digit_text(value: object) -> str:
    return "1" if value else "0"


def read_rate(name: str, value: OptionValue) -> Decimal:
    match = _RATE.fullmatch(str(value))
    rate = Decimal(match[1]) if match else Decimal(0)
    rate = rate.quantize(_RATE_STEP) if rate < _RATE_LIMIT else rate
    if not _RATE_STEP <= rate < _RATE_LIMIT:
        raise InvalidOption(f"{name}: '{value}' is not a number of deliveries per second above 0, up to 999999999")
    return Decimal(format(rate.normalize(), "f"))


def choice(*allowed: str) -> Callable[[str, OptionValue], str]:
    def read(name: str, value: OptionValue) -> str:
        text = str(value).strip().lower()
        if text not in allowed:
            raise InvalidOption(f"{name}: '{value}' is none of {', '.join(allowed)}")
        return text

    return read


def number_text(value: object) -> str:
    assert isinstance(value, Decimal)
    return format(value.normalize(), "f")


def seconds_text(value: object) -> str:
    """Nanoseconds as seconds, exactly."""
    assert isinstance(value, int)
    return format((Decimal(value) / NS_PER_SECOND).normalize(), "f")


def joined(value: object) -> str:
    assert isinstance(value, tuple)
    return "|".join(map(escaped, value))


def escaped(value: object) -> str:
    """A name as a comment holds it: ASCII letters, digits, `_` and `$` as they are, every other byte of it as `%27`.

    So it ends neither the option nor the literal that the comment is written as, in any sql_mode and character set.

    Raises:
        InvalidOption: the client's bytes are no text in its character set.
    """
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text[:50].encode("utf-8", "backslashreplace").decode()
        raise InvalidOption(f"'{shown}' has bytes that are no text in the character set of the connection") from None
    return quote(text, safe="$").replace("-", "%2D").replace(".", "%2E").replace("~", "%7E")


def escaped_text(value: object) -> str:
    return escaped(value)


def read_filter(name: str, value: OptionValue) -> str:
    text = str(value).strip()
    if not text or len(escaped(text)) > _FILTER_MAX:
        raise InvalidOption(f"{name}: '{text[:50]}' is not a condition of up to some hundred characters")
    return text


def order_key_text(value: object) -> str:
    return "*" if value == "*" else escaped(value)
