"""Charts as SVG, made here: so they need no script, and no style but that of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

SPARK_WIDTH, SPARK_HEIGHT = 120, 28
CHART_WIDTH, CHART_HEIGHT = 720, 180
_TOP = 16  # room for the figure of the highest line
_BOTTOM = 20


def sparkline(series: Sequence[tuple[str, Sequence[float]]], title: str) -> Markup:
    """Lines of equal scale, the newest point to the right. `series`: the class of each line, and its points."""
    most = max((value for _, points in series for value in points), default=0.0)
    lines = Markup("").join(
        Markup('<polyline class="{}" points="{}"/>').format(
            kind, _points(points, most, SPARK_WIDTH, SPARK_HEIGHT - 2, 1)
        )
        for kind, points in series
        if points
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, title, lines)


def area_chart(series: Sequence[tuple[str, Sequence[float]]], title: str, span: str, unit: str) -> Markup:
    """The same with a scale: the highest value at the top, and how long ago the first point was at the left."""
    most = max((value for _, points in series for value in points), default=0.0)
    height = CHART_HEIGHT - _TOP - _BOTTOM
    lines = Markup("").join(
        Markup('<polyline class="{}" points="{}"/>').format(kind, _points(points, most, CHART_WIDTH, height, _TOP))
        for kind, points in series
        if points
    )
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
        low=CHART_HEIGHT - 5, most=f"{most:.3g}", unit=unit, span=span,
    )  # fmt: skip


def _points(values: Sequence[float], most: float, width: int, height: int, top: int) -> str:
    step = width / max(1, len(values) - 1)
    scale = height / most if most else 0.0
    return " ".join(f"{n * step:.1f},{top + height - value * scale:.1f}" for n, value in enumerate(values))


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many points, each the sum of its neighbours."""
    size = -(-len(values) // most)
    return [sum(values[start : start + size]) for start in range(0, len(values), size)]
