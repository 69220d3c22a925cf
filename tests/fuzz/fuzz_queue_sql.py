"""Statements on queues, made up by the grammar of the language: `queue_sql.txt`, which is docs/sql.md as rules.

A rule is a name at the start of a line and its alternatives below it, one a line; `{name}` in one stands for what that
rule makes, and an alternative that stands twice comes twice as often. What is made is of the language mostly, and now
and then something that the language refuses, so that each refusal is reached as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

GRAMMAR = Path(__file__).parent / "queue_sql.txt"
DEPTH_MAX = 4
"""How deep rules may go; below it, a rule makes its first alternative, the plainest."""

PLAIN = 0.35
"""How often a rule inside another one is plain: what is odd in every place is refused at the first."""

_MARK = re.compile(r"\{(\w+)\}")
_SPECIAL = {"empty": "", "space": " ", "nul": "\x00", "long": "r" * 1001, "long_name": "n" * 65}


def read_rules(text: str) -> dict[str, tuple[str, ...]]:
    """The rules, by name."""
    rules: dict[str, tuple[str, ...]] = {name: (value,) for name, value in _SPECIAL.items()}
    name = ""
    for line in text.splitlines():
        if line.startswith("  "):
            rules[name] += (line[2:],)
        elif line:
            name = line
            rules[name] = ()
    return rules


RULES = read_rules(GRAMMAR.read_text())


def expanded(random: Random, rule: str, depth: int = 0) -> str:
    """What the rule makes."""
    alternatives = RULES[rule]
    plain = depth > DEPTH_MAX or (depth > 1 and random.random() < PLAIN)
    chosen = alternatives[0] if plain else random.choice(alternatives)
    return _MARK.sub(lambda mark: expanded(random, mark[1], depth + 1), chosen)


def statement(random: Random) -> str:
    """One statement on a queue, or of the session around one."""
    return expanded(random, "statement")
