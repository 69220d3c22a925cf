"""The options by name, and their typed values. Raises OptionError for invalid values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from spark_connector.errors import OptionError
from spark_connector.option_names import ALIASES, SEVERAL_WRITTEN, SPARK_OPTIONS, SPELLED, Use, allowed, unknown_option

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS_MAX = 7 * 86400.0
N = TypeVar("N", int, float)


class OptionValues:
    """The options of the user, by lower-case name; all are allowed for the use."""

    def __init__(self, options: Mapping[str, str], *uses: Use) -> None:
        names = {name.lower(): name for use in uses for name in allowed(use)}
        self._values: dict[str, str] = {}
        self._spellings: dict[str, str] = {}  # the alias by which an option was given
        for name, value in options.items():
            lower = name.lower()
            if lower in SPARK_OPTIONS and Use.STREAM_WRITE in uses:
                continue
            key = ALIASES.get(lower, lower)
            if lower == "subscribe" and "," in value:
                if lower not in names:
                    raise OptionError(f"option subscribe names several, {value[:80]!r}: {SEVERAL_WRITTEN}")
                key = lower
            if key not in names:
                raise OptionError(unknown_option(name, names, uses))
            if self._values.setdefault(key, value) != value:
                raise OptionError(f"option {names[key]} is given twice, with different values")
            if key != lower:
                self._spellings.setdefault(key, SPELLED.get(lower, lower))

    def spelling(self, name: str) -> str:
        """The name that the user has used for an option."""
        return self._spellings.get(name.lower(), name)

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {self.spelling(name)} is true or false, not {value!r}")
        return value == "true"

    def choice(self, name: str, default: str, values: Sequence[str]) -> str:
        value = self.text(name, default).strip().lower()
        if value not in values:
            raise OptionError(f"option {self.spelling(name)} is one of {', '.join(values)}, not {value!r}")
        return value

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        return bounded(self.spelling(name), self.text(name, str(default)), int, (least, most), "a whole number")

    def size(self, name: str) -> int | None:
        """Bytes, as in 500000, 64k, 10m or 1g; None if it is not set."""
        if not self.has(name):
            return None
        text = self.text(name, "").strip().lower().removesuffix("b")
        unit = _UNITS.get(text[-1:], 1)
        return (
            bounded(
                name, text[:-1] if unit > 1 else text, int, (1, 2**40), "a number of bytes, as in 500000, 64k or 10m"
            )
            * unit
        )

    def seconds(self, name: str, default: float, least: float) -> float:
        return bounded(name, self.text(name, str(default)), float, (least, _SECONDS_MAX), "a number of seconds")


def bounded(name: str, text: str, read: Callable[[str], N], bounds: tuple[N, N], what: str) -> N:
    try:
        value = read(text.strip().replace("_", "?"))  # int() would accept an underscore between digits
    except ValueError:
        raise OptionError(f"option {name} is {what}, not {text!r}") from None
    if not bounds[0] <= value <= bounds[1]:
        raise OptionError(f"option {name} is {what} from {_plain(bounds[0])} to {_plain(bounds[1])}, not {text}")
    return value


def _plain(bound: float) -> str:
    return f"{bound:d}" if isinstance(bound, int) else f"{bound:g}"
