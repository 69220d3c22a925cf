"""The plots of a report: SVG files beside the document, made from the numbers in the report and from nothing else.

So an earlier run gives the same files, byte by byte.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Outcome, Series
from benchmarks.measure import MEDIAN, P99
from benchmarks.report import Report
from benchmarks.scale import bodies, proxies, queues, receivers, waiting

FOLDER = "plots"
_COLORS = ("#2563eb", "#059669", "#d97706", "#9333ea", "#dc2626", "#0891b2")
_INK, _GRID, _PAPER = "#1f2937", "#e5e7eb", "#ffffff"
_WIDTH, _HEIGHT, _LEGEND_LINE = 760, 380, 22


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture of a part. `logarithmic`: where the values of one line differ by powers of ten."""

    part: str
    name: str
    title: str
    columns: tuple[str, ...]
    logarithmic: bool = False

    @property
    def file(self) -> str:
        return f"{self.part}-{self.name}.svg"

    @property
    def heading(self) -> str:
        return f"{self.title}, logarithmic" if self.logarithmic else self.title


PLOTS = (
    Plot(queues.NAME, "latency", "A lone message, median ms", (MEDIAN,)),
    Plot(queues.NAME, "idle", "Nobody does anything: CPU of the proxy, ms a second", ("idle proxy CPU ms/s",)),
    Plot(receivers.NAME, "latency", "A lone message, median ms", (MEDIAN,)),
    Plot(receivers.NAME, "memory", "Resident memory of the proxy, MB", (receivers.MEMORY,)),
    Plot(
        waiting.NAME, "rates", "Messages a second",
        (waiting.RATE_OF.format(waiting.DRAIN), waiting.RATE_OF.format(waiting.ENQUEUE)),
    ),
    Plot(waiting.NAME, "latency", "A lone message of another queue, ms", (MEDIAN, P99)),
    Plot(bodies.NAME, "rates", "Enqueued, delivered and acked, MB a second", (bodies.MEGABYTES,), logarithmic=True),
    Plot(bodies.NAME, "memory", "Resident memory of the proxy at its peak, MB", (bodies.PEAK,)),
    Plot(
        proxies.NAME, "rates", "Messages a second",
        (proxies.RATE_OF.format(proxies.DRAIN), proxies.RATE_OF.format(proxies.ENQUEUE)),
    ),
    Plot(proxies.NAME, "latency", "A lone message from one proxy to another, ms", (MEDIAN, P99)),
)  # fmt: skip


class NoPlots(Exception):
    """The library that draws is not installed."""


def write(report: Report, document: Path, begin_mark: str, end_mark: str) -> None:
    """Tables and plots: tables between the document's marks, each with links to its plots in a folder beside it.

    Raises:
        ValueError: the document has no marks.
        NoPlots: pygal is not installed.
    """
    drawn = dict(draw(report))
    report.write_into(document, begin_mark, end_mark, figures(report))
    folder = document.parent / FOLDER
    folder.mkdir(exist_ok=True)
    for plot, picture in drawn.items():
        (folder / plot.file).write_text(picture)


def draw(report: Report) -> Iterator[tuple[Plot, str]]:
    """The pictures of the parts that the report has. Raises NoPlots."""
    for plot, outcome in _measured(report):
        yield plot, _picture(plot, outcome)


def figures(report: Report) -> Mapping[str, str]:
    """For each part by its name: Markdown that shows its plots, by paths relative to the document."""
    found: dict[str, list[str]] = {}
    for plot, _ in _measured(report):
        found.setdefault(plot.part, []).append(f"![{plot.heading}]({FOLDER}/{plot.file})")
    return {part: "\n\n".join(links) for part, links in found.items()}


def _measured(report: Report) -> Iterator[tuple[Plot, Outcome]]:
    outcomes = {outcome.name: outcome for outcome in report.outcomes}
    for plot in PLOTS:
        outcome = outcomes.get(plot.part)
        if outcome is not None and any(column in s.values for s in outcome.series for column in plot.columns):
            yield plot, outcome


def lines(plot: Plot, outcome: Outcome) -> tuple[list[str], dict[str, list[float | None]]]:
    """The points of the axis in the order measured, and each line's medians at them; None where there is none."""
    cases = [(series.rival.rpartition(", "), series) for series in outcome.series]
    points = list(dict.fromkeys(point for (_, _, point), _ in cases))
    found: dict[str, list[float | None]] = {}
    for column in plot.columns:
        for (line, _, point), series in cases:
            name = line if len(plot.columns) == 1 else f"{line}, {column}"
            values = found.setdefault(name, [None] * len(points))
            values[points.index(point)] = _median(series, column)
    return points, {name: values for name, values in found.items() if any(value is not None for value in values)}


def ticks(values: Sequence[float]) -> list[float]:
    """Where a logarithmic axis is marked: at 1, 2 and 5 of each power of ten, from below the values to above them."""
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    marks = [round(mark * 10.0**power, 9) for power in range(lowest, highest + 1) for mark in (1, 2, 5)]
    below = max(mark for mark in marks if mark <= min(values))
    above = min(mark for mark in marks if mark >= max(values))
    return [mark for mark in marks if below <= mark <= above]


def _median(series: Series, column: str) -> float | None:
    return series.median(column) if column in series.values else None


def _picture(plot: Plot, outcome: Outcome) -> str:
    """A chart of pygal without its scripts, and under a name that is the same each time it is drawn."""
    pygal, style_of = _library()
    points, values = lines(plot, outcome)
    font = "system-ui, Segoe UI, Roboto, sans-serif"
    style = style_of(
        background=_PAPER, plot_background=_PAPER, colors=_COLORS, foreground=_INK, foreground_strong=_INK,
        foreground_subtle=_INK, font_family=font, label_font_size=12, major_label_font_size=12, legend_font_size=12,
        title_font_size=14, guide_stroke_color=_GRID, major_guide_stroke_color=_GRID, guide_stroke_dasharray="3,3",
    )  # fmt: skip
    chart = pygal.Line(
        style=style, width=_WIDTH, height=_HEIGHT + _LEGEND_LINE * len(values), js=[], title=plot.heading, margin=12,
        legend_at_bottom=True, legend_at_bottom_columns=1, legend_box_size=10, truncate_legend=-1, truncate_label=-1,
        dots_size=4, stroke_style={"width": 2}, explicit_size=True, disable_xml_declaration=True, pretty_print=False,
        margin_right=60, logarithmic=plot.logarithmic, value_formatter=_number, formatter=_number,
        include_x_axis=not plot.logarithmic, min_scale=4,
    )  # fmt: skip
    chart.uuid = plot.file.removesuffix(".svg")
    chart.x_labels = points
    if plot.logarithmic:
        chart.y_labels = ticks([value for medians in values.values() for value in medians if value])
    for name, medians in values.items():
        chart.add(name, medians)
    return re.sub(r"<script.*?</script>", "", str(chart.render(is_unicode=True)), flags=re.DOTALL) + "\n"


def _library() -> tuple[Any, Any]:
    """pygal and its styles, without the importer that it hangs into Python for old plug-ins: imports warn of it."""
    try:
        import pygal
        from pygal.style import Style
    except ImportError:
        raise NoPlots("plots need the package pygal: pip install '.[dev]'") from None
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "PluginImportFixer"]
    return pygal, Style


def _number(value: float | None) -> str:
    """Short, with three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
