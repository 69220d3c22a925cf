"""A rule over many files or rows as one test, whose failure lists every place that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

Check = Callable[[Any], None]


def over(cases: Iterable[Any], label: Callable[[Any], str] | None = None) -> Callable[[Check], Callable[[], None]]:
    """A decorator: the check of one case becomes a test of all. There has to be a case."""
    listed = list(cases)

    def wrap(check: Check) -> Callable[[], None]:
        def test() -> None:
            assert listed, "nothing to check"
            broken = []
            for case in listed:
                try:
                    check(case)
                except AssertionError as error:
                    broken.append(f"{(label or _name)(case)}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return wrap


def _name(case: Any) -> str:
    return str(case.relative_to(ROOT)) if isinstance(case, Path) else str(case)
