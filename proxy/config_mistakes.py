"""Descriptions of mistakes in the configuration: what is wrong with a value, and what is allowed. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_Context = Mapping[str, Any]

_DESCRIPTIONS: dict[str, Callable[[_Context], str]] = {
    "missing": lambda _: "is missing",
    "int_type": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "bool_type": lambda _: "must be true or false",
    "string_type": lambda _: "must be text; quote it if it looks like a number",
    "tuple_type": lambda _: "must be a list, each item on a line of its own that begins with '- '",
    "model_type": lambda _: "must be a mapping of keys to values",
    "model_attributes_type": lambda _: "must be a mapping of keys to values",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
    "string_too_short": lambda _: "must not be empty",
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
    "enum": lambda context: f"must be one of {context['expected']}",
    "value_error": lambda context: str(context["error"]),
}
"""Pydantic's name of a mistake, and our description of it."""


def mistake(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """One of pydantic's errors as `key.path: what is wrong`. `model` is that of the whole configuration."""
    place: tuple[int | str, ...] = error["loc"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    if error["type"] == "extra_forbidden":
        return f"{path}: {unknown_key(str(place[-1]), keys_of(model, place[:-1]))}"
    describe = _DESCRIPTIONS.get(error["type"])
    return f"{path}: {describe(error.get('ctx', {})) if describe else str(error['msg']).lower()}"


def unknown_key(name: str, allowed: Iterable[str]) -> str:
    """That a key is unknown, the one that was probably meant, and all there are."""
    names = list(allowed)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"unknown key; {f'did you mean {near[0]}? ' if near else ''}allowed: {', '.join(names)}"


def keys_of(model: type[BaseModel], section: tuple[int | str, ...]) -> list[str]:
    """The keys that a section of the configuration may have."""
    for part in section:
        if isinstance(part, str):
            model = _section(model.model_fields[part])
    return list(model.model_fields)


def _section(field: FieldInfo) -> type[BaseModel]:
    """The model of a field: its type, or that of the items where it is a tuple."""
    kind: Any = field.annotation
    for inner in (kind, *getattr(kind, "__args__", ())):
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    raise AssertionError(f"{kind} is no section")
