"""The arguments of a task's call, as JSON in the message. Pure."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from queuegate_worker.errors import Reject, WorkerError
from queuegate_worker.sending.models import is_structured
from queuegate_worker.sending.rows import as_json

Loader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Positional and keyword arguments."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, without those that the worker fills. `loaders`: of those whose annotation is a
    dataclass, a pydantic model or another structured type, a function that checks and converts the JSON value."""

    signature: inspect.Signature
    loaders: Mapping[str, Loader] = field(default_factory=dict)

    def checked(self, call: Call) -> Call:
        """The same call, if the function takes these arguments. Raises WorkerError."""
        try:
            self.signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            raise WorkerError(f"the task's arguments are {self.signature}: {error}") from None
        return call

    def key(self, task: str, call: Call, names: Sequence[str]) -> str:
        """Equal for calls with equal arguments of these names; of all, if there are none. 64 hexadecimal digits."""
        bound = self.signature.bind(*call.args, **call.kwargs)
        bound.apply_defaults()
        chosen = {name: value for name, value in bound.arguments.items() if not names or name in names}
        values = json.loads(as_json("args", chosen))  # objects become mappings, whose keys can be sorted
        return hashlib.sha256(json.dumps([task, values], sort_keys=True).encode()).hexdigest()

    def load(self, call: Call) -> Call:
        """The arguments as the function's annotations want them. Raises Reject: a retry would not help."""
        try:
            bound = self.signature.bind(*call.args, **call.kwargs)
            for name in self.loaders.keys() & bound.arguments.keys():
                bound.arguments[name] = self.loaders[name](bound.arguments[name])
        except (TypeError, ValueError) as error:  # pydantic's are ValueErrors
            raise Reject(f"the arguments do not fit the task: {_without_values(error)}") from error
        return Call(bound.args, bound.kwargs)


def _without_values(error: Exception) -> str:
    """An error's text; of pydantic's without the values, which may be secret."""
    if callable(errors := getattr(error, "errors", None)):
        return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['msg']}" for each in errors()[:5])
    return str(error)


def parameters_of(function: Callable[..., Any], *, skip_first: bool) -> Parameters:
    """Inspects a function; without its first parameter, if the worker fills that. Raises WorkerError."""
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()]
    if skip_first and not parameters:
        raise WorkerError(f"{function.__name__} takes no arguments, but the context is its first")
    parameters = parameters[1:] if skip_first else parameters
    loaders = {
        each.name: _loader(hint)
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and (hint := _hints(function).get(each.name, Any)) is not Any
        and is_structured(hint)
        and not _is_plain_container(hint)
    }
    return Parameters(signature.replace(parameters=parameters), loaders)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # names that exist for a type checker alone: such arguments stay as JSON has them
        return {}


def _is_plain_container(hint: Any) -> bool:
    """Whether JSON has this type itself, so nothing is to be converted."""
    return hint in (list, dict, object) or hint in (list[Any], dict[str, Any])


def _loader(hint: Any) -> Loader:
    """Uses pydantic, if it is installed; if not, the argument stays as JSON has it."""
    try:
        pydantic = importlib.import_module("pydantic")
        load: Loader = pydantic.TypeAdapter(hint).validate_python
    except Exception:  # a type that pydantic does not know
        return lambda value: value
    return load


def as_text(call: Call) -> str:
    """A call as the value of the column `args`. Raises WorkerError."""
    return as_json("the task's arguments", {"args": [*call.args], "kwargs": {**call.kwargs}})


def from_text(text: Any) -> Call:
    """The value of the column `args` as a call. Raises Reject."""
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else text
        args, kwargs = value["args"], value["kwargs"]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise Reject('the column args is no JSON object such as {"args": [], "kwargs": {}}') from error
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise Reject("in the column args, args is a list and kwargs an object")
    return Call(args, kwargs)
