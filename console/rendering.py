"""Values for people: the templates, and the filters that write numbers, times and ages. Everything is escaped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from console.charts import area_chart, delay_chart, delay_text, sparkline

_HERE = Path(__file__).parent
_THIN_SPACE = "\N{THIN SPACE}"
NONE = "\N{EN DASH}"
_PIECES_SHOWN = 4

STATIC: Mapping[str, tuple[str, bytes]] = {
    name: (kind, (_HERE / "static" / name).read_bytes())
    for name, kind in (
        ("console.css", "text/css; charset=utf-8"),
        ("console.js", "text/javascript; charset=utf-8"),
        ("theme.js", "text/javascript; charset=utf-8"),
        ("htmx.min.js", "text/javascript; charset=utf-8"),
        ("htmx.LICENSE.txt", "text/plain; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    )
}
"""All files that are served as they are, by name: their kind and their bytes."""

VERSION = hashlib.sha256(b"".join(data for _, data in STATIC.values())).hexdigest()[:12]
"""Of those files: part of their addresses, so that a browser keeps them until they change."""


def number(value: float | None) -> str:
    """Whole, in groups of three digits."""
    return NONE if value is None else f"{value:,.0f}".replace(",", _THIN_SPACE)


def per_minute(value: float | None) -> str:
    """A rate, with a fraction where it is small."""
    return f"{value:.1f}" if value is not None and 0 < value < 10 and value % 1 else number(value)


def age(seconds: float | None) -> str:
    """A time in its two largest units."""
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.0f} s"
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    rest = int(seconds)
    for size, name in units:
        if rest >= size and len(parts) < 2:
            parts.append(f"{rest // size} {name}")
        rest %= size
    return " ".join(parts)


def moment(ns: Any) -> Markup:
    """A time in nanoseconds, in UTC; a script of the page adds it in the reader's zone, as a hint."""
    if not isinstance(ns, int) or ns <= 0:
        return Markup("{}").format(NONE)
    try:
        at = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("{}").format(ns)
    fraction = f"{ns % 1_000_000_000 // 1_000_000:03d}"
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}.{}Z">{} UTC</time>').format(at.strftime("%Y-%m-%dT%H:%M:%S"), fraction, text)


def utc(text: str | None) -> Markup:
    """The same of a time as the proxy writes it: `2026-11-25 19:00:00.123`, UTC."""
    if not text:
        return Markup("{}").format(NONE)
    try:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return Markup("{}").format(text)
    return moment(int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000)


def pieces(text: str) -> str:
    """A list with commas, such as a key range of a sticky receiver: its first pieces, and how many more there are."""
    first, *others = text.split(",")
    if len(others) < _PIECES_SHOWN:
        return text
    shown = ",".join((first, *others[: _PIECES_SHOWN - 1]))
    return f"{shown} and {len(others) + 1 - _PIECES_SHOWN} more"


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|[{}\[\],:]')
_DEPTH_SHOWN = 20  # deeper ones are not indented further
_INDENTED_MAX = 20_000
"""Characters of a text that is indented: more of it would be slow to scan on each visit."""


def indented(text: str) -> str:
    """A JSON object or array with a line for each member; any other text as it is. Only blanks between its parts are
    changed: numbers and strings stay as they are written."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _INDENTED_MAX or not _is_json(text):
        return text
    pieces: list[str] = []
    depth, before = 0, ""
    for token in _JSON_TOKEN.findall(text):
        if token in ("}", "]"):
            depth -= 1
            if before not in ("{", "["):
                pieces.append(_line_break(depth))
        elif before in ("{", "[", ","):
            pieces.append(_line_break(depth))
        pieces.append(": " if token == ":" else token)
        depth += token in ("{", "[")
        before = token
    return "".join(pieces)


def _line_break(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEPTH_SHOWN)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def link(path: str, **parameters: object) -> str:
    """An address with parameters; those that are None or empty are left out."""
    query = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(query)}" if query else path


EXACT = "exact:"
"""Before the name of a form's field whose value is percent-encoded."""


def exact(name: str, value: object) -> Markup:
    """The name and the value of a field that the user does not fill in. A browser sends each line break as CRLF, so a
    value that has some is encoded."""
    text = str(value)
    if "\r" in text or "\n" in text:
        name, text = EXACT + name, quote(text, safe="")
    return Markup('name="{}" value="{}"').format(name, text)


def environment() -> Environment:
    """The templates, ready to be rendered."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "per_minute": per_minute, "age": age, "moment": moment, "utc": utc}
    made.filters |= {"delay": delay_text, "pieces": pieces, "indented": indented}
    made.globals |= {"link": link, "exact": exact, "version": VERSION, "dash": NONE}
    made.globals |= {"sparkline": sparkline, "area_chart": area_chart, "delay_chart": delay_chart}
    return made
