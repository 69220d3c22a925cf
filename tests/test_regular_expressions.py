"""Regular expressions mean the same in every Python that queuegate supports."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

_SINGLE = {"LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY"}


def patterns(value: Any, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    """The patterns in a module's variable: by itself, in collections and in values of the package."""
    if id(value) in seen:
        return
    seen.add(id(value))
    match value:
        case re.Pattern():
            yield value
        case dict():
            for one in value.values():
                yield from patterns(one, seen)
        case list() | tuple() | set() | frozenset():
            for one in value:
                yield from patterns(one, seen)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                yield from patterns(getattr(value, field.name), seen)


def modules(package: str) -> Iterator[Any]:
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                assert error.name == "pyspark", error  # which the tests of Spark alone install


def repeats_a_group(tree: Any) -> bool:
    """Whether a possessive repeat (`(...)*+`) has more in it than one character."""
    for operation, argument in tree:
        if str(operation) == "POSSESSIVE_REPEAT" and (len(argument[2]) > 1 or str(argument[2][0][0]) not in _SINGLE):
            return True
        if any(repeats_a_group(inner) for inner in inside(argument)):
            return True
    return False


def inside(argument: Any) -> Iterator[Any]:
    if hasattr(argument, "data"):  # a part of a parsed pattern
        yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from inside(one)


def parsed(pattern: re.Pattern[Any]) -> Any:
    parser: Any = importlib.import_module("re._parser")
    return parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)


@pytest.mark.parametrize("text", [r"(?:ab)*+", r"x(?:a|bc){1,9}+y", r"(?>(?:a|(?:b|cd)++)*)"])
def test_a_group_that_is_repeated_possessively_is_seen(text: str) -> None:
    assert repeats_a_group(parsed(re.compile(text)))


@pytest.mark.parametrize("text", [r"a*+", r"[ab]{1,9}+", r"(?>(?:ab)*)", r"\d++(?:x|y)*"])
def test_others_are_not(text: str) -> None:
    assert not repeats_a_group(parsed(re.compile(text)))


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 matches too much there (CPython's issue 106052). Atomic groups are right in each."""
    seen: set[int] = set()
    found = [
        pattern
        for package in (
            *("queuegate", "console", "proxy", "embedded", "rewriter", "mysql_wire", "engine", "mysql_client"),
            "spark_connector",
        )
        for module in modules(package)
        for value in vars(module).values()
        for pattern in patterns(value, seen)
    ]
    assert len(found) > 100
    assert [pattern.pattern for pattern in found if repeats_a_group(parsed(pattern))] == []
