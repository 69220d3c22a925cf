"""The reports of pass-through, topics, steps, rivals and scale: Markdown, JSON, and between a document's marks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness import Outcome, Series
from benchmarks.jobs.targets import job_targets
from benchmarks.queues.targets import queue_targets
from benchmarks.targets import Target, targets
from benchmarks.topics.targets import topic_targets

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
STEPS_BEGIN, STEPS_END = "<!-- steps measured: begin -->", "<!-- steps measured: end -->"
RIVALS_BEGIN, RIVALS_END = "<!-- rivals measured: begin -->", "<!-- rivals measured: end -->"
VITESS_BEGIN, VITESS_END = "<!-- vitess measured: begin -->", "<!-- vitess measured: end -->"
WORKERS_BEGIN, WORKERS_END = "<!-- workers measured: begin -->", "<!-- workers measured: end -->"
SCALE_BEGIN, SCALE_END = "<!-- scale measured: begin -->", "<!-- scale measured: end -->"
FLEET_BEGIN, FLEET_END = "<!-- fleet measured: begin -->", "<!-- fleet measured: end -->"
JOBS_BEGIN, JOBS_END = "<!-- jobs measured: begin -->", "<!-- jobs measured: end -->"
TOPICS_BEGIN, TOPICS_END = "<!-- topics measured: begin -->", "<!-- topics measured: end -->"


@dataclass(frozen=True, slots=True)
class Report:
    """One run: what depends on the machine, what was left out, and what was measured."""

    machine: dict[str, str]
    left_out: list[str]
    outcomes: list[Outcome]

    def targets(self) -> list[Target]:
        found = {outcome.name: outcome for outcome in self.outcomes}
        return [*targets(found), *topic_targets(found), *queue_targets(found), *job_targets(found)]

    def as_json(self) -> str:
        """Every sample of every repeat."""
        met = [asdict(target) for target in self.targets()]
        return json.dumps({**asdict(self), "targets": met}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """What `as_json` wrote."""
        data = json.loads(text)
        outcomes = [
            Outcome(
                part["name"], part["title"], part["main"], [Series(**one) for one in part["series"]],
                tuple(part["bases"]),
            )
            for part in data["outcomes"]
        ]  # fmt: skip
        return cls(data["machine"], data["left_out"], outcomes)

    def as_markdown(self, figures: Mapping[str, str] | None = None) -> str:
        """Machine, verdict, and a table for each part; behind it its figures, Markdown by the part's name."""
        return "\n\n".join(self._sections(figures or {})) + "\n"

    def _sections(self, figures: Mapping[str, str]) -> Iterator[str]:
        yield _table(("", ""), [(name, value) for name, value in self.machine.items()])
        if self.left_out:
            yield "\n".join(f"Left out: {reason}." for reason in self.left_out)
        rows = [(t.what, t.wanted, t.reached, "yes" if t.met else "**no**") for t in self.targets()]
        if rows:
            yield _table(("target", "wanted", "reached", "met"), rows)
        for outcome in self.outcomes:
            yield f"**{outcome.title}**"
            yield _outcome_table(outcome)
            if outcome.name in figures:
                yield figures[outcome.name]

    def show(self, json_file: str | None) -> None:
        """On standard output, as text or (file `-`) as JSON; as JSON into a file besides."""
        sys.stdout.write(self.as_json() if json_file == "-" else "\n" + self.as_markdown())
        if json_file not in (None, "-"):
            Path(json_file).write_text(self.as_json())

    def write_into(
        self, document: Path, begin_mark: str = BEGIN, end_mark: str = END, figures: Mapping[str, str] | None = None
    ) -> None:
        """Replace what stands between the document's marks; `figures` as in `as_markdown`.

        Raises:
            ValueError: it has no marks.
        """
        text = document.read_text()
        head, begin, rest = text.partition(begin_mark)
        _, end, tail = rest.partition(end_mark)
        if not begin or not end:
            raise ValueError(f"{document}: there is no {begin_mark} ... {end_mark} to write between")
        document.write_text(f"{head}{begin_mark}\n\n{self.as_markdown(figures)}\n{end_mark}{tail}")


def _outcome_table(outcome: Outcome) -> str:
    columns = list(dict.fromkeys(column for series in outcome.series for column in series.values))
    columns.sort(key=lambda column: column != outcome.main)
    bases = [base for base in outcome.bases if len(outcome.series) > 1 and outcome.of(base) is not None]
    head = ("", columns[0], "min - max", *columns[1:], *(f"/ {base}" for base in bases))
    return _table(head, [_row(outcome, series, columns, bases) for series in outcome.series if series.values])


def _row(outcome: Outcome, series: Series, columns: Sequence[str], bases: Sequence[str]) -> tuple[str, ...]:
    spread = [_number(bound) for bound in series.spread(outcome.main)] if outcome.main in series.values else ["-"]
    cells = [_number(series.median(column)) if column in series.values else "-" for column in columns]
    ratios = [outcome.ratio(series.rival, base) for base in bases]
    return (
        series.rival,
        cells[0],
        " - ".join(spread),
        *cells[1:],
        *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
    )


def _number(value: float) -> str:
    """Three digits at least: 12,345, 123, 12.3, 1.23."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown that is aligned, so that it reads well unrendered too."""
    widths = [max(len(line[n]) for line in (head, *rows)) for n in range(len(head))]
    rule = ["-" * max(width, 3) if n == 0 else "-" * max(width - 1, 2) + ":" for n, width in enumerate(widths)]
    return "\n".join(_line(cells, widths) for cells in (head, rule, *rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cells[n].rjust(width) if n else cells[n].ljust(width) for n, width in enumerate(widths))
    return "| " + " | ".join((first, *others)) + " |"
