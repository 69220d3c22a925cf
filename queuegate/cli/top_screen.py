"""The terminal of `queuegate top`: curses draws frames and reads keys. It does not depend on queues or proxies.

curses, and not a library for terminals: it is part of Python, knows the terminal at the other end of an SSH line, sends
only what has changed, reads keys, and puts everything back in the end. A frame is lines of text, so it needs no more.
"""

from __future__ import annotations

import curses
import locale
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType

from queuegate.cli.failures import ConsoleError
from queuegate.cli.top_frame import Style, StyledLine

_TICK_MS = 200
"""How long a key is waited for before what is new is drawn."""

_NAMES: Mapping[int, str] = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
}

Draw = Callable[[int, int], Sequence[StyledLine]]
"""The lines of a frame of that width and height."""

Press = Callable[[str, int], bool]
"""What a key does, on a terminal of that height; whether to go on."""


def run(draw: Draw, press: Press) -> None:
    """Show frames until a key ends it. Raises ConsoleError for a terminal that cannot be drawn on."""
    with suppress(locale.Error):  # one that this machine does not have, as ssh brings it from another
        locale.setlocale(locale.LC_ALL, "")
    signal.signal(signal.SIGTERM, _end)  # so that the terminal is put back
    try:
        curses.setupterm()
        curses.wrapper(_loop, draw, press)
    except curses.error as error:
        raise ConsoleError(f"this terminal cannot be drawn on ({error}): use --once") from error


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _loop(screen: curses.window, draw: Draw, press: Press) -> None:
    styles = _styles()
    try:
        curses.curs_set(0)
    except curses.error:
        pass  # a terminal that cannot hide its cursor
    screen.timeout(_TICK_MS)
    while True:
        height, width = screen.getmaxyx()
        _paint(screen, draw(width, height), styles, width)
        key = screen.getch()
        if key == curses.KEY_RESIZE:
            screen.clear()
        elif (key in _NAMES or 0 <= key < 128) and not press(_NAMES.get(key) or chr(key), height):
            return


def _paint(screen: curses.window, lines: Sequence[StyledLine], styles: Mapping[Style, int], width: int) -> None:
    encoding = locale.getpreferredencoding(False)
    screen.erase()
    for y, line in enumerate(lines):
        text = line.text.encode(encoding, "replace").decode(encoding)
        if line.style is Style.TITLE:
            text += " " * (width - len(text))
        try:
            screen.addstr(y, 0, text, styles[line.style])
        except curses.error:
            pass  # the last cell is written, and the cursor has no place after it; or the screen has become smaller
    screen.refresh()


def _styles() -> Mapping[Style, int]:
    styles = {
        Style.PLAIN: curses.A_NORMAL,
        Style.TITLE: curses.A_REVERSE,
        Style.BAD: curses.A_BOLD,
        Style.WARNING: curses.A_BOLD,
        Style.DIM: curses.A_DIM,
    }
    if curses.has_colors():
        try:
            curses.use_default_colors()
        except curses.error:
            return styles  # a terminal without a colour of its own for the background
        curses.init_pair(1, curses.COLOR_RED, -1)
        curses.init_pair(2, curses.COLOR_YELLOW, -1)
        styles |= {Style.BAD: curses.color_pair(1) | curses.A_BOLD, Style.WARNING: curses.color_pair(2)}
    return styles
