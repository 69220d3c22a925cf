"""Result column names: an expression without alias is named by its own text, as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import END, MARK, SqlValue, literal_text, slot_kinds, slot_notes

_TOKEN = re.compile(rf"`(?:[^`]|``)*`|{MARK}[^{END}]*{END}|[A-Za-z_$][\w$]*|\s+|.", re.S)
_END_OF_LIST = keywords("FROM WHERE GROUP HAVING ORDER LIMIT UNION INTERSECT EXCEPT FOR INTO WINDOW LOCK")
_MODIFIERS = keywords(
    "DISTINCT ALL DISTINCTROW HIGH_PRIORITY STRAIGHT_JOIN SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT "
    "SQL_NO_CACHE SQL_CACHE SQL_CALC_FOUND_ROWS"
)
NAME_MAX = 255  # characters of a name that a server makes
_ONE_SLOT = re.compile(rf"{MARK}[^{END}]*{END}")


@dataclass(frozen=True, slots=True)
class ItemText:
    """The text of one item of a select list; `first_slot` numbers the first slot in it."""

    text: str
    first_slot: int

    def literal_slots(self) -> list[int]:
        """Slots whose values appear in the name (parameters and variables do not)."""
        return [self.first_slot + i for i, note in enumerate(slot_notes(self.text)) if not note]

    def name(self, values: list[SqlValue]) -> str:
        """The column's name as MariaDB returns it, which truncates it."""
        return self._whole_name(values)[:NAME_MAX]

    def _whole_name(self, values: list[SqlValue]) -> str:
        notes, kinds = slot_notes(self.text), slot_kinds(self.text)
        if _ONE_SLOT.fullmatch(self.text) and kinds[0] == "s" and not notes[0]:
            return str(values[self.first_slot])
        order = iter(range(len(notes)))

        def show(match: re.Match[str]) -> str:
            position = next(order)
            note = notes[position]
            if note:
                return "?" if note == "p" else note[1:]
            return literal_text(values[self.first_slot + position])

        return _ONE_SLOT.sub(show, self.text)


def select_items(shape: str) -> list[ItemText]:
    """The items of the first select list that is not inside parentheses (or of the first at all)."""
    items: list[ItemText] = []
    start, slots, first_slot = -1, 0, 0
    for token, position, depth in _tokens(shape):
        upper = token.upper()
        if start < 0:
            if depth == 0 and upper == "SELECT":
                start, first_slot = position + len(token), slots
        elif depth < 0 or (depth == 0 and (token == "," or upper in _END_OF_LIST)):
            items.append(ItemText(shape[start:position].strip(), first_slot))
            start, first_slot = position + 1, slots
            if token != ",":
                return items
        elif not items and upper in _MODIFIERS and not shape[start:position].strip():
            start = position + len(token)
        slots += token[0] == MARK
    if start >= 0:
        items.append(ItemText(shape[start:].strip(), first_slot))
    return items


def _tokens(shape: str) -> Iterator[tuple[str, int, int]]:
    """Tokens with their position and depth of parentheses; parentheses around the whole statement do not count."""
    wrapped = len(shape) - len(shape.lstrip("( \t\r\n")) if shape.lstrip().startswith("(") else 0
    depth = -shape[:wrapped].count("(")
    for match in _TOKEN.finditer(shape):
        token = match[0]
        depth -= token == ")"
        yield token, match.start(), depth
        depth += token == "("
