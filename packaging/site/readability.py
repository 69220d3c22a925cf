"""How hard each page of the documentation is to read: its Flesch-Kincaid grade, the years of school that it takes.

Grade = 0.39 · words per sentence + 11.8 · syllables per word - 15.59 (Kincaid and others, 1975). Only prose counts:
code, tables, headings, pictures and names in back quotes are left out. Syllables are estimated by groups of vowels.
`make docs` prints the table; a test holds the bound for Start and Guides.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BOUND = 9.0
"""Of Start and Guides: what a reader of fourteen, or an engineer with English as a third language, reads once."""
BOUNDED = ("Start", "Guides")
_LEFT_OUT = (
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL),
    re.compile(r"<(svg|picture|figure)\b.*?</\1>", re.DOTALL),
    re.compile(r"^[|#!].*$", re.MULTILINE),
    re.compile(r"^For: .*$", re.MULTILINE),
    re.compile(r"`[^`\n]+`"),
    re.compile(r"https?://\S+"),
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+", re.MULTILINE)
_ENDS = re.compile(r"[.!?]+(?=[\s)]|$)|\n\s*\n")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


@dataclass(frozen=True)
class Page:
    """A page of the site, with the first part of the navigation that it is in."""

    part: str
    path: str


def prose(markdown: str) -> str:
    """What a reader reads as sentences."""
    for pattern in _LEFT_OUT:
        markdown = pattern.sub(" ", markdown) if pattern.pattern.startswith("`") else pattern.sub("\n\n", markdown)
    return _ITEM.sub("\n\n", _LINK.sub(r"\1", markdown)).replace("*", "")


def syllables(word: str) -> int:
    """An estimate: groups of vowels, without a silent e at the end."""
    word = re.sub(r"[^a-z]", "", word.lower())
    silent = re.search(r"[^aeiouyl]e$|[^aeiouydt]ed$|[^aeiouscxzg]es$", word)
    return max(1, len(re.findall(r"[aeiouy]+", word)) - bool(silent))


def grade(markdown: str) -> float:
    """The Flesch-Kincaid grade of a page; 0 where there is no sentence."""
    sentences = [words for part in _ENDS.split(prose(markdown)) if (words := _WORD.findall(part))]
    words = [word for sentence in sentences for word in sentence]
    if not words:
        return 0.0
    each = len(words)
    return 0.39 * each / len(sentences) + 11.8 * sum(map(syllables, words)) / each - 15.59


def pages(navigation: list[Any], part: str = "") -> Iterator[Page]:
    """The pages of mkdocs' `nav`, in its order."""
    for entry in navigation:
        for title, value in entry.items() if isinstance(entry, dict) else [("", entry)]:
            if isinstance(value, list):
                yield from pages(value, part or title)
            else:
                yield Page(part, value)


def site() -> list[Page]:
    """The pages of mkdocs.yml that are files of docs."""
    text = (ROOT / "mkdocs.yml").read_text()
    found = pages(yaml.safe_load(text)["nav"])
    return [page for page in found if (ROOT / "docs" / page.path).exists()]


def main() -> int:
    """Print the grade of each page; 1 where one is above its bound."""
    too_hard = 0
    for page in site():
        found = grade((ROOT / "docs" / page.path).read_text())
        over = page.part in BOUNDED and found >= BOUND
        too_hard += over
        print(f"{found:5.1f}  {page.part:10} {page.path}" + (f"  must be below {BOUND:g}" if over else ""))
    return 1 if too_hard else 0


if __name__ == "__main__":
    sys.exit(main())
