"""Typed payloads: a dataclass or a pydantic model says which columns a message has, and of which types.

A field is a column. A field whose JSON is one text, number or boolean (text, numbers, times, bytes, enums, UUIDs,
paths, URLs) is stored as that value, all others as JSON. Both directions are checked by pydantic.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import types
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from queuegate_worker.errors import Reject, WorkerError
from queuegate_worker.sending.rows import exact, refuse_unlike

M = TypeVar("M")

_SCALARS = (str, bytes, bool, int, float, Decimal, datetime, date, time, timedelta, uuid.UUID, enum.Enum, type(None))
_SCALARS_OF_JSON = ("string", "number", "integer", "boolean", "null")
_PROBLEMS_MAX = 5


class Model(Generic[M]):
    """A class of payloads. Raises WorkerError if it is none, if a field has an alias, or if pydantic is missing."""

    def __init__(self, payload_class: type[M]) -> None:
        self._pydantic = _pydantic(payload_class)
        self._class: Any = payload_class
        self._fields = {name: _field(self._pydantic, hint) for name, hint in self._hints().items()}
        self._adapter = self._pydantic.TypeAdapter(payload_class)

    def columns(self, payload: M | Mapping[str, Any]) -> dict[str, Any]:
        """A payload, or the values of one, as columns. Raises WorkerError with the fields that are wrong."""
        of_model = isinstance(payload, self._class)
        more: Any = payload if isinstance(payload, Mapping) else getattr(payload, "model_extra", None) or ()
        if unknown := [name for name in more if name not in self._fields]:
            raise WorkerError(f"{self._class.__name__} has no field {unknown[0]!r}, so it would not be sent")
        # An object may have been changed since it was checked, so it is checked again.
        values = self._values(payload) if of_model else payload
        try:
            checked = self._values(self._adapter.validate_python(values))
        except self._pydantic.ValidationError as error:
            raise WorkerError(f"this is no {self._class.__name__}: {_problems(error)}") from None
        columns = {name: self._column(name, value) for name, value in checked.items()}
        try:
            self._loaded(columns)
        except self._pydantic.ValidationError as error:
            raise WorkerError(f"this {self._class.__name__} could not be read again: {_problems(error)}") from None
        return columns

    def load(self, columns: Mapping[str, Any]) -> M:
        """A message's columns as a payload. Raises Reject: a message that is wrong does not become right by a retry."""
        try:
            return self._loaded(columns)
        except self._pydantic.ValidationError as error:
            raise Reject(f"the message is no {self._class.__name__}: {_problems(error)}") from None

    def _loaded(self, columns: Mapping[str, Any]) -> M:
        """Raises pydantic's ValidationError."""
        fields = {name: field for name, field in self._fields.items() if name in columns}
        loaded: M
        try:
            loaded = self._adapter.validate_python({name: each.read(columns[name]) for name, each in fields.items()})
        except self._pydantic.ValidationError:
            loaded = self._adapter.validate_python({name: each.fitted(columns[name]) for name, each in fields.items()})
        return loaded

    def _hints(self) -> dict[str, Any]:
        """The types of its fields, by name."""
        if dataclasses.is_dataclass(self._class):
            hints = get_type_hints(self._class, include_extras=True)
            return {field.name: hints[field.name] for field in dataclasses.fields(self._class)}
        if not issubclass(self._class, self._pydantic.BaseModel):
            raise WorkerError(f"{self._class.__name__} is neither a dataclass nor a pydantic model")
        fields = self._class.model_fields
        aliased = [name for name, field in fields.items() if field.alias or field.validation_alias]
        if aliased:
            raise WorkerError(f"{self._class.__name__} has an alias for {aliased[0]!r}: name the field as the column")
        return {
            name: Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            for name, field in fields.items()
        }

    def _values(self, payload: Any) -> dict[str, Any]:
        return {name: getattr(payload, name) for name in self._fields}

    def _column(self, name: str, value: Any) -> Any:
        try:
            return self._fields[name].stored(value)
        except (ValueError, OverflowError, RecursionError) as error:
            raise WorkerError(f"{self._class.__name__} cannot be sent: {name}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Field:
    """A field. `adapter`: pydantic's of its type; `json`: that of any value; `structured`: is it stored as JSON?"""

    adapter: Any
    json: Any
    structured: bool

    def stored(self, value: Any) -> Any:
        """A checked value as that of a column. Raises ValueError, OverflowError, RecursionError."""
        if value is None:
            return None
        if self.structured:
            refuse_unlike(self.json.dump_python(value))
            return exact(self.json.dump_json(value).decode())
        if callable(secret := getattr(value, "get_secret_value", None)):
            value = secret()
        if isinstance(value, datetime) and value.tzinfo is not None and not self._fits(value.replace(tzinfo=None)):
            return value.astimezone(UTC).replace(tzinfo=None)  # `fitted` gives the zone back
        return value if isinstance(value, _SCALARS) else self.adapter.dump_python(value, mode="json")

    def read(self, value: Any) -> Any:
        """A column's value, without its JSON. Raises pydantic's ValidationError."""
        return self.json.validate_json(value) if self.structured and isinstance(value, str | bytes) else value

    def fitted(self, value: Any) -> Any:
        """A column's value as one of the field's type, where the database has it as another; else as it is."""
        if self.structured and isinstance(value, str | bytes):
            try:
                return self.adapter.validate_json(value)
            except ValueError:
                pass
        for form in _forms(value):
            try:
                return self.adapter.validate_python(form)
            except ValueError:
                pass
        return value

    def _fits(self, value: Any) -> bool:
        try:
            self.adapter.validate_python(value)
        except ValueError:  # pydantic's is one
            return False
        return True


def _forms(value: Any) -> Iterator[Any]:
    """What a column's value may stand for: in a column DATETIME is no zone, and PyMySQL makes a TIME a timedelta."""
    yield value
    if isinstance(value, datetime):
        yield value.replace(tzinfo=UTC)
    if isinstance(value, timedelta) and timedelta(0) <= value < timedelta(days=1):
        yield (datetime.min + value).time()


def _field(pydantic: Any, hint: Any) -> _Field:
    json = pydantic.TypeAdapter(Any)
    try:
        adapter = pydantic.TypeAdapter(hint)
        schema = adapter.json_schema(mode="serialization")
    except pydantic.errors.PydanticUserError:  # pydantic has no schema of the type by itself
        return _Field(json, json, is_structured(hint))
    return _Field(adapter, json, not _is_scalar(schema, schema.get("$defs", {})))


def _is_scalar(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Whether all values of a JSON schema are one text, number or boolean."""
    match schema:
        case {"$ref": str() as reference}:
            return _is_scalar(definitions[reference.rpartition("/")[2]], definitions)
        case {"anyOf": several} | {"oneOf": several} | {"allOf": several}:
            return all(_is_scalar(each, definitions) for each in several)
        case {"enum": values}:
            return not any(isinstance(each, list | dict) for each in values)
    return "const" in schema or schema.get("type") in _SCALARS_OF_JSON


def is_structured(annotation: Any) -> bool:
    """Whether values of this type are objects or arrays in JSON, as far as the annotation alone says it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_structured(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(is_structured(each) for each in get_args(annotation))
    if origin is Literal:
        return False
    for name in ("__supertype__", "__value__"):  # of a NewType, and of an alias
        if not isinstance(annotation, type) and hasattr(annotation, name):
            return is_structured(getattr(annotation, name))
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
