"""The proxy's configuration as it is in force, to be shown: without anything secret. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from pydantic import BaseModel, SecretStr

from engine.model.options import QueueOptions, option_items
from proxy.config import Config

_SECRET = "***"


class Setting(NamedTuple):
    """A key by its path in the file. `configured`: 1 where the value is another than the default, else 0."""

    name: str
    value: str | None
    configured: int


def settings_of(config: Config) -> list[Setting]:
    """All keys. Of accounts there are their names alone; the backend's URL has no password, and nothing behind `?`."""
    return list(_of_section(config, ""))


def _of_section(section: BaseModel, before: str) -> Iterator[Setting]:
    defaults = type(section)()
    for name in type(section).model_fields:
        value, default = getattr(section, name), getattr(defaults, name)
        configured = int(value != default)
        if isinstance(value, BaseModel):
            yield from _of_section(value, f"{before}{name}.")
        elif isinstance(value, QueueOptions):
            usual = option_items(default)
            for option, text in option_items(value).items():
                yield Setting(f"{before}{name}.{option}", str(text), int(text != usual.get(option)))
        elif name == "users":
            yield Setting(f"{before}{name}", ", ".join(user.name for user in value) or None, configured)
        else:
            yield Setting(f"{before}{name}", _text(value), configured)


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case SecretStr():
            return _SECRET
        case Enum():
            return str(value.value)
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
