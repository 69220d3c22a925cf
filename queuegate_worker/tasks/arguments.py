"""The arguments of a task's call, as JSON in the message. Pure."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_type_hints

from queuegate_worker.errors import Reject, WorkerError
from queuegate_worker.handlers import signature_of
from queuegate_worker.sending.rows import as_exact_json, as_json

Loader = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Positional and keyword arguments."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, without those that the worker fills. `names`: what its annotations may refer to;
    they are read at the first call, when all of the module is there."""

    signature: inspect.Signature
    names: Mapping[str, Any] = field(repr=False)
    _loaders: dict[str, Loader | None] = field(default_factory=dict, repr=False, compare=False)

    def checked(self, call: Call) -> Call:
        """The same call, if the function takes these arguments, also by their types. Raises WorkerError."""
        try:
            bound = self.signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            raise WorkerError(f"the task's arguments are {self.signature}: {error}") from None
        try:
            self._convert(bound)
        except ValueError as error:
            raise WorkerError(f"the arguments do not fit the task: {error}") from None
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
            self._convert(bound)
        except (TypeError, ValueError) as error:
            raise Reject(f"the arguments do not fit the task: {error}") from error
        return Call(bound.args, bound.kwargs)

    def _convert(self, bound: inspect.BoundArguments) -> None:
        """Raises ValueError with the argument and the reason; WorkerError for what has no form in JSON."""
        for name, value in bound.arguments.items():
            if name not in self._loaders:
                self._loaders[name] = _loader(_hint(self.signature.parameters[name], self.names))
            if (load := self._loaders[name]) is not None:
                text = as_json("the task's arguments", value)
                try:
                    bound.arguments[name] = load(text)
                except (TypeError, ValueError) as error:  # pydantic's are ValueErrors
                    raise ValueError(_without_values(name, error)) from None


def _without_values(name: str, error: Exception) -> str:
    """An error's text; of pydantic's without the values, which may be secret."""
    if callable(errors := getattr(error, "errors", None)):
        return "; ".join(f"{'.'.join(map(str, (name, *each['loc'])))}: {each['msg']}" for each in errors()[:5])
    return f"{name}: {error}"


def parameters_of(function: Callable[..., Any], *, skip_first: bool) -> Parameters:
    """Inspects a function; without its first parameter, if the worker fills that. Raises WorkerError."""
    signature = signature_of(function)
    parameters = [*signature.parameters.values()]
    if skip_first and not parameters:
        raise WorkerError(f"{function.__name__} takes no arguments, but the context is its first")
    if skip_first and parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise WorkerError(
            f"{function.__name__}: the first argument is its context, so it cannot be given by name alone"
        )
    parameters = parameters[1:] if skip_first else parameters
    return Parameters(signature.replace(parameters=parameters), getattr(inspect.unwrap(function), "__globals__", {}))


def _hint(parameter: inspect.Parameter, names: Mapping[str, Any]) -> Any:
    """The type of its values; Any where a name exists for a type checker alone: they stay as JSON has them."""

    def annotated() -> None: ...

    annotated.__annotations__ = {"it": Any if parameter.annotation is parameter.empty else parameter.annotation}
    try:
        hint = get_type_hints(annotated, {**names}, include_extras=True)["it"]
    except Exception:
        return Any
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple[hint, ...]  # type: ignore[valid-type]
    if parameter.kind is parameter.VAR_KEYWORD:
        return dict[str, hint]  # type: ignore[valid-type]
    return hint if parameter.default is not None else hint | None


def _loader(hint: Any) -> Loader | None:
    """A function that checks a JSON text and converts it. None: the argument stays as JSON has it, since pydantic does
    not know its type, or is not installed."""
    if hint is Any:
        return None
    try:
        load = importlib.import_module("pydantic").TypeAdapter(hint).validate_json
    except Exception:
        return None
    # Models are written by the names of their fields; other programs write the aliases.
    return partial(load, by_alias=True, by_name=True) if "by_name" in inspect.signature(load).parameters else load


def as_text(call: Call) -> str:
    """A call as the value of the column `args`. Raises WorkerError."""
    return as_exact_json("the task's arguments", {"args": [*call.args], "kwargs": {**call.kwargs}})


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
