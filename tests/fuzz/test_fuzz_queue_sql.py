"""The grammar that the fuzzer makes statements of: it is whole, it reaches the whole language, and it is used."""

from __future__ import annotations

import re
from random import Random

import fuzz_queue_sql
from fuzz_run import Fuzzer

import rewriter.grammar.statements
from engine.model.errors import EngineError
from rewriter.errors import RewriteError
from rewriter.grammar.parse import parse

_MARK = re.compile(r"\{(\w+)\}")
_OF_QUEUES = re.compile(
    rb"\b(?:queues?|stream|n?ack|release|renew|reject|retry|redrive|after group|subscriptions|delivery|queuegate)\b"
    rb"|\b(?:topics?|groups|schedules?|(?:create|alter|drop) group)\b"
    rb"|queue_\w+|(?:insert|replace|update|delete)\b.{0,40}\bf[qgole]\b",
    re.IGNORECASE | re.DOTALL,
)


def test_every_rule_is_there_and_used() -> None:
    rules = fuzz_queue_sql.RULES
    marks = {mark for made in rules.values() for one in made for mark in _MARK.findall(one)}
    assert marks | {"statement"} == set(rules)
    assert all(rules.values())


def test_every_kind_of_statement_is_made_as_the_language_has_it() -> None:
    random, seen = Random(1), set[str]()
    for _ in range(4000):
        try:
            seen.add(type(parse(fuzz_queue_sql.statement(random), database="queuegate")).__name__)
        except (RewriteError, EngineError):
            continue
    parts = {"ColumnItem", "KeyItem", "AfterGroup", "Due", "Beginning", "StreamColumn", "StreamClauses", "Assignment"}
    nodes = {name for name, value in vars(rewriter.grammar.statements).items() if _is_statement(value)} - parts
    nodes |= {"CreateSchedule", "AlterSchedule", "DropSchedule", "RunSchedule"}
    nodes |= {"Show", "ReadSystem", "ShowSystem", "Kill", "UseDatabase"}
    assert nodes <= seen, nodes - seen


def _is_statement(value: object) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == "rewriter.grammar.statements"
        and hasattr(value, "__match_args__")
    )


def test_most_inputs_are_about_queues() -> None:
    inputs = [Fuzzer(1, kind).input(number) for kind in ("relay", "proxy", "embedded") for number in range(150)]
    about = [one for one in inputs if _OF_QUEUES.search(one.sent)]
    assert len(about) > 0.8 * len(inputs), len(about)
