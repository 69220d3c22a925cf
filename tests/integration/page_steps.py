"""Pages of the documentation as steps that can be run: each block, and what the page says to the tests about it.

A page is run from its first block to its last, each block as a reader would paste it. A comment directly before a
block, which the site does not show, says what is unusual about it: `<!-- test: words -->` with

- `error 1231`: the last statement of the block is refused with that number
- `until`: the block only reads; it is repeated until it prints what the page says
- `server` or `embedded`: only with that backend
- `background`: a program that runs until the end of the page, and then ends in order
- `shown: reason`: it is not run, for that reason

`<!-- setup: SQL -->` (or `setup server:`, `setup embedded:`) is SQL that the page needs and does not show. What a block
prints stands below it in a block of text, where `...` stands for anything within a line and a run of blanks or dashes
for any other.

Of tabs (`=== "Python"`), which have the same in several languages, the first is a step of the page; `tabs` has all.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STEP = re.compile(
    r"^<!-- setup(?: (?P<where>server|embedded))?: (?P<setup>.*?)-->$|"
    r"^(?:<!-- test: (?P<words>[^\n]*?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$"
    r"(?:\n\n^```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_TAB = re.compile(r'^=== "(?P<label>[^"\n]+)"\n(?P<content>(?:\n|    [^\n]*\n)+)', re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One block of a page."""

    language: str
    text: str
    printed: str | None = None
    error: int | None = None
    until: bool = False
    place: str | None = None
    background: bool = False
    shown: str | None = None


def steps(page: Path) -> list[Step]:
    """The blocks of a page in their order; what is printed belongs to the block above it."""
    return [
        Step("sql", match["setup"], place=match["where"])
        if match["setup"] is not None
        else step(match["language"], match["text"], match["printed"], match["words"] or "")
        for match in _STEP.finditer(with_first_tabs(page.read_text()))
        if match["language"] != "text"
    ]


def with_first_tabs(text: str) -> str:
    """A page in which each group of tabs is what its first tab has."""
    parts, after, in_group = [], 0, False
    for tab in _TAB.finditer(text):
        in_group = in_group and tab.start() == after
        parts += [text[after : tab.start()], "" if in_group else textwrap.dedent(tab["content"])]
        after, in_group = tab.end(), True
    return "".join([*parts, text[after:]])


def tabs(page: Path) -> dict[str, Step]:
    """What each tab of a page has, by its label; a page has one group of them at most."""
    found = {
        tab["label"]: step(*_only_block(textwrap.dedent(tab["content"])), None, "")
        for tab in _TAB.finditer(page.read_text())
    }
    assert len(found) == len(_TAB.findall(page.read_text())), "two tabs of one name"
    return found


def _only_block(text: str) -> tuple[str, str]:
    """The language and the text of the block that a tab consists of."""
    ((language, block),) = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return language, block


def step(language: str, text: str, printed: str | None, words: str) -> Step:
    """A block with what the comment before it says."""
    if words.startswith("shown: "):
        return Step(language, text, printed, shown=words.removeprefix("shown: "))
    left = words.split()
    error = int(left.pop(left.index("error") + 1)) if "error" in left else None
    unknown = set(left) - {"error", "until", "server", "embedded", "background"}
    assert not unknown, f"a block is marked with words that mean nothing: {sorted(unknown)}"
    place = next((word for word in left if word in ("server", "embedded")), None)
    return Step(language, text, printed, error, "until" in left, place, "background" in left)


def fits(printed: str, expected: str) -> bool:
    """Whether a block printed what the page says."""
    pattern = re.escape(squeezed(expected)).replace(r"\.\.\.", "[^\n]*")
    return re.fullmatch(pattern, squeezed(printed)) is not None


def squeezed(text: str) -> str:
    """Widths of columns, which depend on the values, left out."""
    lines = (re.sub(r"[ -]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
