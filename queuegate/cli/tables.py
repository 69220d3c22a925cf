"""Text for a terminal: characters that do nothing but show, columns, and short forms of numbers and times. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime

NONE = "-"
"""The placeholder of an unknown value."""

_NS_PER_SECOND = 1_000_000_000
_MORE = "..."


def printable(text: str) -> str:
    """The text with what would move the cursor, ring, or hide, written as an escape. Names and bodies are anyone's."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def width(text: str) -> int:
    """Columns of a terminal that a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, columns: int) -> str:
    """The beginning of a printable text that fits, with dots where something is missing."""
    if width(text) <= columns:
        return text
    ending = _MORE if columns > 2 * len(_MORE) else ""
    fitting, taken = "", width(ending)
    for character in text:
        taken += _columns(character)
        if taken > columns:
            break
        fitting += character
    return fitting + ending


def shortened_inside(text: str, columns: int) -> str:
    """A name that fits, with dots in its middle: names of many queues differ in their ends."""
    if width(text) <= columns or columns < 3 * len(_MORE):
        return shortened(text, columns)
    ending = ""
    for character in reversed(text):
        if width(character + ending) > (columns - len(_MORE)) // 2:
            break
        ending = character + ending
    return shortened(text, columns - width(ending)) + ending


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text in a field of exactly so many columns."""
    text = shortened(text, columns)
    blank = " " * (columns - width(text))
    return blank + text if right else text + blank


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), most: int = 0) -> str:
    """Lines of aligned columns under titles; those named in `right` are aligned to the right. `most`: columns of a
    line."""
    widths = [max(width(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    lines = []
    for row in (titles, *rows):
        cells = [padded(cell, w, right=t in right) for cell, w, t in zip(row, widths, titles, strict=True)]
        line = "  ".join(cells).rstrip()
        lines.append(shortened(line, most) if most else line)
    return "".join(f"{line}\n" for line in lines)


def compact(number: float | None) -> str:
    """A count in at most five characters: 99999, 123k, 1.2M."""
    if number is None:
        return NONE
    if number < 100_000:
        return str(int(number))
    for unit in "kMGT":
        number /= 1000
        if number < 9.95 and unit != "k":
            return f"{number:.1f}{unit}"
        if number < 999.5:
            return f"{number:.0f}{unit}"
    return "lots"


def rate(per_second: float | None) -> str:
    """A rate in at most five characters."""
    if per_second is None or per_second == 0:
        return NONE if per_second is None else "0"
    return f"{per_second:.1f}" if per_second < 99.95 else compact(round(per_second))


def age(seconds: float | None) -> str:
    """A duration in at most six characters: 45s, 3m12s, 2h05m, 3d04h, 120d."""
    if seconds is None:
        return NONE
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    days = whole // 86400
    return f"{days}d{whole % 86400 // 3600:02}h" if days < 100 else f"{days}d"


def local_time(ns: int) -> str:
    """A time in nanoseconds since 1970 as ISO 8601 has it, in this machine's zone, to the millisecond."""
    seconds, rest = divmod(ns, _NS_PER_SECOND)
    moment = datetime.fromtimestamp(seconds).astimezone().replace(microsecond=rest // 1000)
    return moment.isoformat(timespec="milliseconds")
