"""Typed payloads: a dataclass or a pydantic model says which columns a message has, and of which types.

A field is a column. Fields of scalar types (text, numbers, times, bytes, enums, UUIDs) are stored as they are, all
others as JSON. Both directions are checked by pydantic.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import types
import uuid
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from queuegate_worker.errors import Reject, WorkerError

M = TypeVar("M")

_SCALARS = (str, bytes, bool, int, float, Decimal, datetime, date, time, timedelta, uuid.UUID, enum.Enum, type(None))
_PROBLEMS_MAX = 5


class Model(Generic[M]):
    """A class of payloads. Raises WorkerError if it is none, if a field has an alias, or if pydantic is missing."""

    def __init__(self, payload_class: type[M]) -> None:
        self._pydantic = _pydantic(payload_class)
        self._class: Any = payload_class
        self._names = self._field_names()
        self._adapter = self._pydantic.TypeAdapter(payload_class)
        self._json = self._pydantic.TypeAdapter(Any)
        hints = get_type_hints(payload_class, include_extras=True)
        self._structured = frozenset(name for name in self._names if is_structured(hints[name]))

    def columns(self, payload: M | Mapping[str, Any]) -> dict[str, Any]:
        """A payload, or the values of one, as columns. Raises WorkerError with the fields that are wrong."""
        # An object may have been changed since it was checked, so it is checked again.
        values = self._values(payload) if isinstance(payload, self._class) else payload
        try:
            checked = self._values(self._adapter.validate_python(values))
        except self._pydantic.ValidationError as error:
            raise WorkerError(f"this is no {self._class.__name__}: {_problems(error)}") from None
        return {name: self._column(name, value) for name, value in checked.items()}

    def load(self, columns: Mapping[str, Any]) -> M:
        """A message's columns as a payload. Raises Reject: a message that is wrong does not become right by a retry."""
        values = {name: columns[name] for name in self._names if name in columns}
        try:
            for name in self._structured & values.keys():
                if isinstance(values[name], str | bytes):
                    values[name] = self._json.validate_json(values[name])
            loaded: M = self._adapter.validate_python(values)
            return loaded
        except self._pydantic.ValidationError as error:
            raise Reject(f"the message is no {self._class.__name__}: {_problems(error)}") from None

    def _field_names(self) -> list[str]:
        if dataclasses.is_dataclass(self._class):
            return [field.name for field in dataclasses.fields(self._class)]
        if not issubclass(self._class, self._pydantic.BaseModel):
            raise WorkerError(f"{self._class.__name__} is neither a dataclass nor a pydantic model")
        fields = self._class.model_fields
        aliased = [name for name, field in fields.items() if field.alias or field.validation_alias]
        if aliased:
            raise WorkerError(f"{self._class.__name__} has an alias for {aliased[0]!r}: name the field as the column")
        return [*fields]

    def _values(self, payload: Any) -> dict[str, Any]:
        return {name: getattr(payload, name) for name in self._names}

    def _column(self, name: str, value: Any) -> Any:
        return value if name not in self._structured or value is None else self._json.dump_json(value).decode()


def is_structured(annotation: Any) -> bool:
    """Whether values of this type are stored as JSON."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_structured(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(is_structured(each) for each in get_args(annotation))
    if origin is Literal:
        return False
    return not (isinstance(annotation, type) and issubclass(annotation, _SCALARS))


def _problems(error: Any) -> str:
    """Which fields are wrong, and why; without their values, which may be secret."""
    problems = [f"{'.'.join(map(str, each['loc'])) or 'payload'}: {each['msg']}" for each in error.errors()]
    more = f"; and {len(problems) - _PROBLEMS_MAX} more" if len(problems) > _PROBLEMS_MAX else ""
    return "; ".join(problems[:_PROBLEMS_MAX]) + more


def _pydantic(payload_class: Any) -> Any:
    if not isinstance(payload_class, type):
        raise WorkerError(f"{payload_class!r} is no class; a model is a dataclass or a pydantic model")
    try:
        return importlib.import_module("pydantic")
    except ImportError:
        raise WorkerError("typed payloads need pydantic: pip install 'queuegate-worker[models]'") from None
