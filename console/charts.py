"""Charts as SVG, made here: so they need no script, and no style but that of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

SPARK_WIDTH, SPARK_HEIGHT = 120, 28
CHART_WIDTH, CHART_HEIGHT = 720, 180
_TOP = 16  # room for the figure of the highest line
_BOTTOM = 20


def sparkline(series: Sequence[tuple[str, Sequence[float]]], title: str) -> Markup:
    """Lines of equal scale, the newest point to the right. `series`: the class of each line, and its points."""
    most = max((value for _, points in series for value in points), default=0.0)
    lines = Markup("").join(_line(kind, points, most, SPARK_WIDTH, SPARK_HEIGHT - 2, 1) for kind, points in series)
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, title, lines)


def area_chart(series: Sequence[tuple[str, Sequence[float | None]]], title: str, span: str, unit: str) -> Markup:
    """The same with a scale: the highest value at the top, and how long ago the first point was at the left. Where a
    value is None the line has a gap."""
    most = max((value for _, points in series for value in points if value is not None), default=0.0)
    height = CHART_HEIGHT - _TOP - _BOTTOM
    lines = Markup("").join(_line(kind, points, most, CHART_WIDTH, height, _TOP) for kind, points in series)
    base = CHART_HEIGHT - _BOTTOM
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{title}">'
        '<line class="grid" x1="0" x2="{w}" y1="{top}" y2="{top}"/>'
        '<line class="grid" x1="0" x2="{w}" y1="{base}" y2="{base}"/>'
        "{lines}"
        '<text x="2" y="{high}">{most} {unit}</text><text x="2" y="{low}">{span} ago</text>'
        '<text class="end" x="{w}" y="{low}">now</text></svg>'
    ).format(
        w=CHART_WIDTH, h=CHART_HEIGHT, title=title, top=_TOP, base=base, lines=lines, high=_TOP - 4,
        low=CHART_HEIGHT - 5, most=f"{most:.3g}" if most < 1000 else f"{most:.0f}", unit=unit, span=span,
    )  # fmt: skip


def delay_chart(series: Sequence[tuple[str, Sequence[float | None]]], title: str, span: str) -> Markup:
    """The same of delays in seconds, in the unit that suits the longest of them."""
    unit, size = _unit(max((value for _, points in series for value in points if value is not None), default=0.0))
    scaled = [(kind, [None if value is None else value / size for value in points]) for kind, points in series]
    return area_chart(scaled, title, span, unit)


def delay_text(seconds: float) -> str:
    """A delay in the unit that suits it."""
    unit, size = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def _unit(seconds: float) -> tuple[str, float]:
    return ("ms", 0.001) if seconds < 1 else ("s", 1.0)


def _line(kind: str, values: Sequence[float | None], most: float, width: int, height: int, top: int) -> Markup:
    """One line, in as many pieces as there are between its gaps."""
    step = width / max(1, len(values) - 1)
    scale = height / most if most else 0.0
    pieces = []
    for has_value, run in groupby(enumerate(values), key=lambda place: place[1] is not None):
        if has_value:
            points = [f"{n * step:.1f},{top + height - (value or 0.0) * scale:.1f}" for n, value in run]
            # A piece of one point is drawn as a dot by the round ends of the line.
            pieces.append(" ".join(points if len(points) > 1 else points * 2))
    return Markup("").join(Markup('<polyline class="{}" points="{}"/>').format(kind, piece) for piece in pieces)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many points, each the sum of its neighbours."""
    size = -(-len(values) // most)
    return [sum(values[start : start + size]) for start in range(0, len(values), size)]
