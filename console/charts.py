"""Charts as SVG, made here: so they need no script, and no style but that of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import floor, log10

from markupsafe import Markup

SPARK_WIDTH, SPARK_HEIGHT = 120, 28
CHART_WIDTH, CHART_HEIGHT = 720, 180
_TOP = 20  # room for the unit
_BOTTOM = 22
_LEFT = 52  # room for the values
_TIME_TICKS = 5
_STRIPE = Markup('<rect class="point" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>')


def sparkline(series: Sequence[tuple[str, Sequence[float | None]]], title: str) -> Markup:
    """Lines of equal scale, the newest point to the right. `series`: the class of each line, and its points."""
    most = max((value for _, points in series for value in points if value is not None), default=0.0)
    lines = Markup("").join(_line(kind, points, most, SPARK_WIDTH, SPARK_HEIGHT - 2, 1) for kind, points in series)
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, title, lines)


Series = Sequence[tuple[str, str, Sequence[float | None]]]
"""The lines of a chart: of each its class, its name, and its points, the oldest first."""


def area_chart(series: Series, title: str, seconds: int, unit: str) -> Markup:
    """The same with axes: values at the left, how long ago below, and the values of each point under the pointer.
    `seconds`: the time from the first point to now. Where a value is None the line has a gap."""
    top = _round_up(max((value for _, _, points in series for value in points if value is not None), default=0.0))
    height, base = CHART_HEIGHT - _TOP - _BOTTOM, CHART_HEIGHT - _BOTTOM
    lines = (_line(kind, points, top, CHART_WIDTH - _LEFT, height, _TOP) for kind, _, points in series)
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{title}">{values}{times}'
        '<g transform="translate({left})">{lines}{points}</g>'
        '<text x="{left}" y="{high}" class="unit">{unit}</text></svg>'
    ).format(
        w=CHART_WIDTH, h=CHART_HEIGHT, title=title, left=_LEFT, high=_TOP - 5, unit=unit,
        values=Markup("").join(_value_tick(top * n / 2, base - height * n / 2) for n in range(3 if top else 1)),
        times=Markup("").join(_time_tick(seconds, n) for n in range(_TIME_TICKS + 1)),
        lines=Markup("").join(lines), points=_points(series, seconds, unit),
    )  # fmt: skip


def delay_chart(series: Series, title: str, seconds: int) -> Markup:
    """The same of delays in seconds, in the unit that suits the longest of them."""
    unit, size = _unit(max((value for _, _, points in series for value in points if value is not None), default=0.0))
    scaled = [
        (kind, name, [None if value is None else value / size for value in points]) for kind, name, points in series
    ]
    return area_chart(scaled, title, seconds, unit)


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5 and 10 times a power of ten, so that half of it is short, too."""
    if value <= 0:
        return 0.0
    power = 10.0 ** floor(log10(value))
    return next(each * power for each in (1, 2, 4, 5, 10, 20) if each * power >= value)


def _value_text(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _value_tick(value: float, y: float) -> Markup:
    return Markup(
        '<line class="grid" x1="{left}" x2="{w}" y1="{y:.1f}" y2="{y:.1f}"/>'
        '<text class="end" x="{x}" y="{below:.1f}">{value}</text>'
    ).format(left=_LEFT, w=CHART_WIDTH, y=y, x=_LEFT - 6, below=y + 4, value=_value_text(value))


def _time_tick(seconds: int, n: int) -> Markup:
    """The nth of the times below, the first at the left."""
    x, base = _LEFT + (CHART_WIDTH - _LEFT) * n / _TIME_TICKS, CHART_HEIGHT - _BOTTOM
    side = "end" if n == _TIME_TICKS else "start" if n == 0 else "middle"
    return Markup(
        '<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{tick}"/>'
        '<text class="{side}" x="{x:.1f}" y="{below}">{ago}</text>'
    ).format(x=x, base=base, tick=base + 4, side=side, below=CHART_HEIGHT - 3, ago=_ago(seconds, 1 - n / _TIME_TICKS))


def _ago(seconds: int, share: float) -> str:
    """How long ago that share of the time is."""
    past = round(seconds * share)
    if not past:
        return "now"
    for size, name in ((3600, "h"), (60, "min")):
        if past >= size:
            return f"{past / size:.2g} {name} ago"
    return f"{past} s ago"


def _points(series: Series, seconds: int, unit: str) -> Markup:
    """Invisible stripes, one for each point: a browser shows the title of the one under the pointer."""
    count = max((len(points) for _, _, points in series), default=0)
    width = (CHART_WIDTH - _LEFT) / max(1, count)
    stripes = []
    for n in range(count):
        values = [(name, points[n]) for _, name, points in series if n < len(points) and points[n] is not None]
        if values:
            text = ", ".join(f"{name} {_value_text(value or 0.0)}" for name, value in values)
            ago = _ago(seconds, 1 - n / max(1, count - 1))
            stripes.append(
                _STRIPE.format(n * width, _TOP, width, CHART_HEIGHT - _TOP - _BOTTOM, f"{ago}: {text} {unit}")
            )
    return Markup("").join(stripes)


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


def thinned(values: Sequence[float | None], most: int) -> list[float | None]:
    """At most so many points, each the sum of its neighbours; None where one of them is."""
    size = -(-len(values) // most)
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    return [None if None in group else sum(value or 0.0 for value in group) for group in groups]
