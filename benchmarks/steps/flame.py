"""Collapsed stacks as a flame graph in SVG: a box for each function, upon the one that has called it.

A box is as wide as the samples in its function and in what that has called; boxes beside
each other are in the order of their names, not of time. What a box is, and its share, is shown under the mouse.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from benchmarks.steps.stacks import Stacks

WIDTH, ROW, HEAD = 1600.0, 17, 30
_NARROWEST = 0.3  # narrower boxes are left out, with all above them
_LETTER = 6.6  # the width of a letter; a name is cut where its box ends


@dataclass(slots=True)
class Box:
    """A function where it was called from one place."""

    name: str
    samples: int = 0
    called: dict[str, Box] = field(default_factory=dict)

    @property
    def height(self) -> int:
        """Rows, itself included."""
        return 1 + max((box.height for box in self.called.values()), default=0)


def tree(stacks: Stacks) -> Box:
    """All stacks from one root on."""
    root = Box("all")
    for stack, number in stacks.items():
        box = root
        box.samples += number
        for frame in stack:
            box = box.called.setdefault(frame, Box(frame))
            box.samples += number
    return root


def svg(stacks: Stacks, title: str) -> str:
    """The picture. Without any sample it has no boxes."""
    root = tree(stacks)
    height = HEAD + ROW * root.height
    boxes = list(_boxes(root, root, 0.0, height - ROW)) if root.samples else []
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" font-family="monospace"'
            ' font-size="11">',
            '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="4" y="19" font-size="14">{escape(title)}</text>',
            *boxes,
            "</svg>\n",
        )
    )


def _boxes(root: Box, box: Box, left: float, top: int) -> Iterator[str]:
    width = box.samples / root.samples * WIDTH
    if width < _NARROWEST:
        return
    told = f"{box.name}: {box.samples:,} samples, {box.samples / root.samples * 100:.1f} %"
    letters = int((width - 4) / _LETTER)
    name = box.name if len(box.name) <= letters else box.name[: letters - 1] + "…" if letters > 2 else ""
    text = f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(name)}</text>' if name else ""
    yield (
        f'<g><title>{escape(told)}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 1}"'
        f' fill="{_colour(box.name)}"/>{text}</g>'
    )
    for called in sorted(box.called.values(), key=lambda each: each.name):
        yield from _boxes(root, called, left, top - ROW)
        left += called.samples / root.samples * WIDTH


def _colour(name: str) -> str:
    """Warm, and the same for the same function in every picture."""
    chance = zlib.crc32(name.encode())
    return f"rgb({205 + chance % 50},{110 + (chance >> 8) % 110},{60 + (chance >> 16) % 50})"
