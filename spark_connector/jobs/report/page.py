"""A report as one self-contained HTML file: numbers, plots as inline SVG, and tables."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from spark_connector.jobs.failures import JobError
from spark_connector.jobs.report.text import (
    GROUP_COLUMNS,
    QUEUE_COLUMNS,
    attempts_name,
    coverage_note,
    duration,
    group_cells,
    moment,
    queue_cells,
    queues_note,
    topic_numbers,
)
from spark_connector.jobs.report.values import TOP, QueueReport, Rate, Report, TopicReport

_BLUE, _GREEN, _ORANGE, _INK = "#2563eb", "#059669", "#d97706", "#1f2937"
_LABELS_MAX = 8  # of an axis of time
_ROUND_TIMES = (
    (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1, "1 s"), (10, "10 s"), (60, "1 m"), (600, "10 m"),
    (3600, "1 h"), (36_000, "10 h"), (86_400, "1 d"), (864_000, "10 d"), (8_640_000, "100 d"),
)  # fmt: skip
_RATES_AS_BARS = 30
_PLOTTED_MIN = 2  # complete ones: fewer are not useful
_BARS_MAX = 12  # queues in the plot of backlogs
_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f3f4f6; color: #1f2937; font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 12px; }
p.sub { color: #6b7280; margin: 2px 0 22px; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; } .tile { flex: 1 1 84px; white-space: nowrap; }
.tile, .card { background: #fff; border: 1px solid #e5e7eb; border-radius: 10px; padding: 14px 16px; }
.tiles .tile { padding: 12px; }
.tile b { display: block; font-size: 18px; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: #6b7280; font-size: 13px; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 16px; }
.card h3 { font-size: 15px; margin: 0 0 8px; } .wide { grid-column: 1 / -1; }
.card svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: #6b7280; font-weight: 550; font-size: 13px; }
th, td { padding: 5px 8px; border-bottom: 1px solid #f0f1f3; } .n { text-align: right; }
td:first-child { overflow-wrap: anywhere; } .scroll { overflow-x: auto; }
p.note { color: #6b7280; font-size: 13px; margin: 8px 0 0; }
"""


def page(report: Report) -> str:
    """The page. Raises JobError if the plot library is not installed."""
    of_topic = _topic(report.topic) if report.topic else ()
    body = "".join((_head(report), *(_queue(report.queue) if report.queue else ()), *of_topic, _queues(report)))
    title = escape(_title(report))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _title(report: Report) -> str:
    if report.topic is not None:
        return f"Topic {report.topic.topic}"
    return f"Queue {report.queue.queue}" if report.queue else f"Queues of {report.database}"


def _head(report: Report) -> str:
    of = f", from {' and '.join(report.queue.sources)}" if report.queue else ""
    return (
        f"<h1>{escape(_title(report))}</h1>"
        f'<p class="sub">database {escape(report.database)}, {moment(report.at)} UTC{escape(of)}</p>'
    )


def _tiles(tiles: Sequence[tuple[str, str]]) -> str:
    made = (f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(made)}</div>'


def _topic(of: TopicReport) -> Iterator[str]:
    yield _tiles([(value, name) for name, value in topic_numbers(of)])
    if of.rates:
        plot = _card(f"Messages per {of.bucket} (UTC)", _rates(of), "wide")
        yield f'<h2>Over time</h2><div class="grid">{plot}</div>'


def _queue(of: QueueReport) -> Iterator[str]:
    tiles = [(f"{count:,}", state.replace("_", " ")) for state, count in of.states.items()]
    yield _tiles([*tiles, (f"{of.dead:,}", "dead letters"), (duration(of.oldest_due), "oldest ready")])
    yield '<h2>Over time, latency, attempts</h2><div class="grid">'
    if of.rates:
        yield _card(f"Messages per {of.bucket} (UTC)", _rates(of), "wide")
    yield _card("From due and from enqueueing to ack", _latency_table(of) + _latency_plot(of))
    yield _card("Deliveries of a message", _attempts_plot(of))
    if of.failures:
        rows = [(failure.value, f"{failure.count:,}") for failure in of.failures]
        yield _card("Last errors", _table(("reason", "messages"), rows), "wide")
    yield "</div>"


def _queues(report: Report) -> str:
    note = "".join(f'<p class="note">{escape(line)}</p>' for line in queues_note(report))
    title = f"Queues, at most {TOP}: those with most messages that wait"
    cards = [_card(title, _table(QUEUE_COLUMNS, list(map(queue_cells, report.queues))) + note, "wide")]
    if report.groups:
        cards.append(_card("Consumer groups", _table(GROUP_COLUMNS, list(map(group_cells, report.groups))), "wide"))
    if any(line.waiting for line in report.queues):
        cards.insert(0, _card("Messages that wait, by queue", _backlog_plot(report), "wide"))
    return f'<h2>Queues of {escape(report.database)}</h2><div class="grid">{"".join(cards)}</div>'


def _card(title: str, inner: str, kind: str = "") -> str:
    return f'<div class="card {kind}"><h3>{escape(title)}</h3><div class="scroll">{inner}</div></div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        made = (f"<{tag}{' class=n' if index else ''}>{escape(cell)}</{tag}>" for index, cell in enumerate(cells))
        return f"<tr>{''.join(made)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _latency_table(of: QueueReport) -> str:
    rows = [
        (f"since {x.since}", f"{x.count:,}", duration(x.p50), duration(x.p90), duration(x.p99), duration(x.longest))
        for x in of.latencies
    ]
    return _table(("to ack", "messages", "p50", "p90", "p99", "longest"), rows)


def _latency_plot(of: QueueReport) -> str:
    """On a custom logarithmic axis, labelled in round times: the longest is often a thousand times the median."""
    if not of.latencies:
        return ""
    series = {x.since: [_power(y) for y in (x.p50, x.p90, x.p99, x.longest)] for x in of.latencies}
    powers = [power for values in series.values() for power in values]
    lowest, highest = math.floor(min(powers) - 0.1), math.ceil(max(powers))
    chart = _chart(
        "Bar", (_BLUE, _GREEN), 520, 190, range=(lowest, highest), zero=lowest,
        print_values=True, print_values_position="top", margin_top=16,
    )  # fmt: skip
    chart.x_labels = ("p50", "p90", "p99", "longest")
    chart.y_labels = [
        {"label": label, "value": power}
        for seconds, label in _ROUND_TIMES
        if lowest <= (power := math.log10(seconds)) <= highest
    ]
    for since, values in series.items():
        bars = [{"value": power, "formatter": lambda power: duration(10.0**power)} for power in values]
        chart.add(f"since {since}", bars)
    return _svg(chart)


def _power(seconds: float) -> float:
    return math.log10(max(seconds, 0.001))


def _rates(of: QueueReport | TopicReport) -> str:
    """The plot, without incomplete buckets if there are enough others: they would look like a drop."""
    shown = [rate for rate in of.rates if rate.complete]
    others = [rate for rate in of.rates if not rate.complete]
    if len(shown) < _PLOTTED_MIN:
        note = f"Not all of these are complete: {coverage_note(of)}." if others else ""
        shown = list(of.rates)
    else:
        enqueued, acked = sum(rate.enqueued for rate in others), sum(rate.acked for rate in others)
        counted = f"{enqueued:,} enqueued, {acked:,} acked" if isinstance(of, QueueReport) else f"{enqueued:,} written"
        which = f"an incomplete {of.bucket} is" if len(others) == 1 else f"{len(others)} incomplete {of.bucket}s are"
        which = f"{which} left out ({counted}): {coverage_note(of)}."
        note = which[0].upper() + which[1:] if others else ""
    plot = _rates_plot(shown, of.bucket, with_acks=isinstance(of, QueueReport))
    return plot + (f'<p class="note">{escape(note)}</p>' if note else "")


def _rates_plot(rates: Sequence[Rate], bucket: str, *, with_acks: bool) -> str:
    """Few buckets are bars: a line would suggest values between two buckets."""
    frame: dict[str, Any] = {"include_x_axis": True, "margin_right": 50}
    if len(rates) <= _RATES_AS_BARS:
        chart = _chart("Bar", (_BLUE, _GREEN), 1080, 300, **frame)
    else:
        chart = _chart("Line", (_BLUE, _GREEN), 1080, 300, show_dots=False, stroke_style={"width": 2}, **frame)
    labels = [moment(rate.start, bucket) for rate in rates]
    chart.x_labels, chart.x_labels_major_every = labels, -(-len(labels) // _LABELS_MAX)
    chart.show_minor_x_labels = False
    chart.add("enqueued", [rate.enqueued for rate in rates])
    if with_acks:
        chart.add("acked", [rate.acked for rate in rates])
    return _svg(chart)


def _attempts_plot(of: QueueReport) -> str:
    chart = _chart(
        "Bar", (_BLUE,), 520, 260, show_legend=False, include_x_axis=True, x_title="deliveries so far",
        print_values=True, print_values_position="top", margin_top=16,
    )  # fmt: skip
    chart.x_labels = [attempts_name(attempts) for attempts, _ in of.attempts]
    chart.add("messages", [count for _, count in of.attempts])
    return _svg(chart)


def _backlog_plot(report: Report) -> str:
    shown = [summary for summary in report.queues if summary.waiting][:_BARS_MAX]
    chart = _chart(
        "HorizontalStackedBar", (_BLUE, _GREEN, _ORANGE, "#9ca3af"), 1080, 90 + 34 * len(shown), margin_right=50
    )
    chart.x_labels = [q.queue for q in reversed(shown)]
    for name in ("ready", "in_flight", "retrying", "scheduled"):
        chart.add(name.replace("_", " "), [getattr(q, name) for q in reversed(shown)])
    return _svg(chart)


def _chart(kind: str, colors: tuple[str, ...], width: int, height: int, *, opacity: str = ".85", **more: Any) -> Any:
    """A chart of pygal, without its scripts: the page loads nothing from other servers."""
    pygal, style_of = _library()
    font = "system-ui, Segoe UI, Roboto, sans-serif"
    style = style_of(
        background="transparent", plot_background="transparent", colors=colors, foreground=_INK,
        foreground_strong=_INK, foreground_subtle="#9ca3af", opacity=opacity, opacity_hover=".95", font_family=font,
        label_font_size=11, major_label_font_size=11, legend_font_size=12, title_font_size=12,
        value_font_size=11, value_colors=(_INK,) * 4,
        guide_stroke_color="#e5e7eb", major_guide_stroke_color="#d1d5db", guide_stroke_dasharray="3,3",
    )  # fmt: skip
    return getattr(pygal, kind)(
        style=style, width=width, height=height, js=[], margin=4, legend_at_bottom=True, legend_box_size=10,
        explicit_size=False, disable_xml_declaration=True, value_formatter=_number, formatter=_number,
        truncate_label=-1, pretty_print=False, **more,
    )  # fmt: skip


def _library() -> tuple[Any, Any]:
    """pygal and its styles. Its import hook for old plug-ins is removed, because it causes warnings."""
    try:
        import pygal
        from pygal.style import Style
    except ImportError:
        raise JobError("plots need the package pygal: pip install 'queuegate-spark[report]'") from None
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "PluginImportFixer"]
    return pygal, Style


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _svg(chart: Any) -> str:
    """The plot, without the script that pygal adds: nothing on the page is executed."""
    return re.sub(r"<script.*?</script>", "", str(chart.render(is_unicode=True)), flags=re.DOTALL)
