"""JSON functions. Documents are text; results are written as MySQL writes them."""

from __future__ import annotations

import json
import re
from json import decoder, scanner
from math import isinf
from typing import Any, cast

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.store import NumberTooBig, finite, no_constant

_STEP = re.compile(r'\.\s*([A-Za-z_$][\w$]*|"(?:[^"\\]|\\.)*"|\*)|\[\s*(\d+|\*|last(?:\s*-\s*\d+)?)\s*\]|(\*\*)')
_AT_ONCE = 262_144  # characters of a document; reading so many in one call takes about ten milliseconds
_NODES_AT_ONCE = 20_000  # values in a document; writing so many in one call takes some milliseconds

DOCUMENT_MAX = 4 << 20
"""Characters of a document. With a larger one, even freeing its memory would take too long."""


def parsed(text: str) -> Any:
    """The document. A large one is parsed by Python's pure Python parser, which lets other threads run, where the one
    in C would block the interpreter all the time. Raises ValueError, RecursionError."""
    if len(text) <= _AT_ONCE:
        return _WHOLE.decode(text)
    if len(text) > DOCUMENT_MAX:
        raise unsupported(f"a JSON document of more than {DOCUMENT_MAX} characters", "keep it in a LONGTEXT column")
    return _PIECEWISE.decode(text)


def _piecewise_decoder() -> json.JSONDecoder:
    """As the standard library's own, which takes its readers in C where there are any."""
    result: Any = json.JSONDecoder(parse_float=finite, parse_constant=no_constant)
    result.parse_object, result.parse_array = getattr(decoder, "JSONObject"), getattr(decoder, "JSONArray")  # noqa: B009
    result.scan_once = getattr(scanner, "py_make_scanner")(result)  # noqa: B009
    return cast(json.JSONDecoder, result)


_WHOLE = json.JSONDecoder(parse_float=finite, parse_constant=no_constant)
_PIECEWISE = _piecewise_decoder()


def loads(text: Any, argument: int = 1, function: str = "json") -> Any:
    """The document, or error 3141."""
    try:
        return parsed(text if isinstance(text, str) else _as_text(text))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, NumberTooBig) else "Invalid value."
        message = f'Invalid JSON text in argument {argument} to function {function}: "{reason}" at position 0.'
        raise SqlError(3141, message) from None


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def dumps(value: Any) -> str:
    """MySQL's form: ', ' and ': ', keys by length, then by bytes."""
    return _written(_sorted(value))


def _written(value: Any, **form: Any) -> str:
    """As JSON text. What is large is written piece by piece: in one call it would hold the interpreter."""
    if not _is_large(value):
        return json.dumps(value, ensure_ascii=False, **form)
    return "".join(json.JSONEncoder(ensure_ascii=False, **form).iterencode(value))


def _is_large(value: Any) -> bool:
    left, waiting = _NODES_AT_ONCE, [value]
    while waiting and left > 0:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        left -= 1
    return left <= 0


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=lambda key: (len(key.encode()), key))}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def steps(path: str) -> list[str | int]:
    """The steps of a path: keys as text, positions as numbers, '*' and '**' and '[*]' for wildcards."""
    text = path.strip()
    if not text.startswith("$"):
        raise SqlError(3143, f"Invalid JSON path expression. The error is around character position 1: '{path}'.")
    result: list[str | int] = []
    position = 1
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise SqlError(3143, f"Invalid JSON path expression. The error is around character position {position}.")
        key, index, deep = match.groups()
        if deep:
            raise SqlError(1235, "The embedded backend does not support ** in JSON paths")
        if key is not None:
            result.append("*" if key == "*" else "." + (json.loads(key) if key[0] == '"' else key))
        elif index == "*":
            result.append("[*]")
        elif index is not None:
            result.append(int(index) if index.isdecimal() else -1 - int(re.sub(r"\D", "", index) or 0))
        position = match.end()
    return result


def find(value: Any, path: list[str | int]) -> list[Any]:
    """All values at a path."""
    values = [value]
    for step in path:
        values = [inner for one in values for inner in _step(one, step)]
    return values


def _step(value: Any, step: str | int) -> list[Any]:
    if step == "*":
        return list(value.values()) if isinstance(value, dict) else []
    if step == "[*]":
        return list(value) if isinstance(value, list) else []
    if isinstance(step, int):
        items = value if isinstance(value, list) else [value]
        return [items[step]] if -len(items) <= step < len(items) else []
    key = step[1:]
    return [value[key]] if isinstance(value, dict) and key in value else []


@scalar(large_result=True, splits=True)
def json_extract(context: CallContext, document: str, *paths: str) -> str | None:
    value = loads(document, 1, "json_extract")
    parsed_paths = [steps(path) for path in paths]
    values = [inner for parsed_path in parsed_paths for inner in find(value, parsed_path)]
    many = len(parsed_paths) > 1 or any(step in ("*", "[*]") for step in parsed_paths[0])
    if not values:
        return None
    return dumps(values if many else values[0])


@scalar(splits=True)
def json_scalar(context: CallContext, document: str) -> Any:
    """The SQL value that a JSON scalar is compared as."""
    value = loads(document)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (dict, list)):
        return dumps(value)
    return "null" if value is None else value


@scalar(large_result=True, splits=True)
def json_value(context: CallContext, document: str, path: str) -> str | None:
    """JSON_VALUE: a scalar as text."""
    text = json_extract(context, document, path)
    return None if text is None or text == "null" or text[0] in "[{" else json_unquote(context, text)


@scalar(splits=True, large_result=True)
def json_unquote(context: CallContext, value: Any) -> str:
    """JSON_UNQUOTE: text that is no JSON string stays as it is."""
    text = _as_text(value)
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise SqlError(3141, "Invalid JSON text in argument 1 to function json_unquote") from None


@scalar(null_aware=True, splits=True, large_result=True)
def json_quote_value(context: CallContext, value: Any) -> str:
    """A text as a JSON string; NULL as null."""
    return "null" if value is None else json.dumps(_as_text(value), ensure_ascii=False)


@scalar(splits=True)
def json_double(context: CallContext, value: float) -> str:
    """A floating-point number in JSON: it is one there, too."""
    if isinf(value):
        raise SqlError(1690, "DOUBLE value is out of range")
    return json.dumps(float(value))


@scalar(splits=True, large_result=True)
def json_quote(context: CallContext, text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@scalar("json", large_result=True, splits=True)
def to_json(context: CallContext, text: str) -> str:
    """CAST(text AS JSON)."""
    return dumps(loads(text, 1, "cast_as_json"))


@scalar(large_result=True, splits=True)
def json_array(context: CallContext, *items: str) -> str:
    return dumps([loads(item, number, "json_array") for number, item in enumerate(items, 1)])


@scalar(null_aware=True, large_result=True, splits=True)
def json_object(context: CallContext, *items: str | None) -> str:
    pairs: dict[str, Any] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if key is None:
            raise SqlError(3158, "JSON documents may not contain NULL member names.")
        pairs[key] = loads(value, 1, "json_object") if value is not None else None
    return dumps(pairs)


@scalar(large_result=True, splits=True)
def json_set(context: CallContext, document: str, *changes: str) -> str:
    return _edited(document, changes, replace=True, insert=True)


@scalar(large_result=True, splits=True)
def json_insert(context: CallContext, document: str, *changes: str) -> str:
    return _edited(document, changes, replace=False, insert=True)


@scalar(large_result=True, splits=True)
def json_replace(context: CallContext, document: str, *changes: str) -> str:
    return _edited(document, changes, replace=True, insert=False)


def _edited(document: str, changes: tuple[str, ...], *, replace: bool, insert: bool) -> str:
    root = {"": loads(document, 1, "json_set")}
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        _edit(root, [".", *steps(path)], loads(value, 1, "json_set"), replace, insert)
    return dumps(root[""])


def _edit(root: dict[str, Any], path: list[str | int], value: Any, replace: bool, insert: bool) -> None:
    if any(step in ("*", "[*]") for step in path):
        raise SqlError(3149, "In this situation, path expressions may not contain the * and ** tokens.")
    parents = find(root, path[:-1])
    if not parents:
        return
    parent, last = parents[0], path[-1]
    exists = bool(_step(parent, last))
    if exists and replace:
        if isinstance(parent, (dict, list)):
            _put(parent, last, value)
    elif not exists and insert:
        if isinstance(last, str) and isinstance(parent, dict):
            parent[last[1:]] = value
        elif isinstance(last, int) and isinstance(parent, list):
            parent.append(value)


def _put(parent: dict[str, Any] | list[Any], step: str | int, value: Any) -> None:
    if isinstance(parent, dict) and isinstance(step, str):
        parent[step[1:]] = value
    elif isinstance(parent, list) and isinstance(step, int):
        parent[step] = value


def _delete(parent: dict[str, Any] | list[Any], step: str | int) -> None:
    if isinstance(parent, dict) and isinstance(step, str):
        del parent[step[1:]]
    elif isinstance(parent, list) and isinstance(step, int):
        del parent[step]


@scalar(large_result=True, splits=True)
def json_remove(context: CallContext, document: str, *paths: str) -> str:
    value = loads(document, 1, "json_remove")
    for path in paths:
        parsed_path = steps(path)
        if not parsed_path:
            raise SqlError(3153, "The path expression '$' is not allowed in this context.")
        parents = find(value, parsed_path[:-1])
        if parents and _step(parents[0], parsed_path[-1]) and isinstance(parents[0], (dict, list)):
            last = parsed_path[-1]
            _delete(parents[0], last)
    return dumps(value)


@scalar(splits=True)
def json_valid(context: CallContext, text: Any) -> int:
    try:
        parsed(_as_text(text))
    except (ValueError, RecursionError):
        return 0
    return 1


@scalar(splits=True)
def json_length(context: CallContext, document: str, path: str = "$") -> int | None:
    values = find(loads(document, 1, "json_length"), steps(path))
    if not values:
        return None
    return len(values[0]) if isinstance(values[0], (dict, list)) else 1


@scalar(splits=True)
def json_type(context: CallContext, document: str) -> str:
    value = loads(document, 1, "json_type")
    names = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE"}
    return "NULL" if value is None else names[type(value)]


@scalar(large_result=True, splits=True)
def json_keys(context: CallContext, document: str, path: str = "$") -> str | None:
    values = find(loads(document, 1, "json_keys"), steps(path))
    return dumps(list(_sorted(values[0]))) if values and isinstance(values[0], dict) else None


@scalar(splits=True)
def json_contains(context: CallContext, document: str, candidate: str, path: str = "$") -> int | None:
    values = find(loads(document, 1, "json_contains"), steps(path))
    return int(_contains(context, values[0], loads(candidate, 2, "json_contains"))) if values else None


def _contains(context: CallContext, target: Any, candidate: Any) -> bool:
    if isinstance(target, list):
        candidates = candidate if isinstance(candidate, list) else [candidate]
        return all(any(_contains(context, item, one) for item in target) for one in context.until_killed(candidates))
    if isinstance(target, dict):
        return isinstance(candidate, dict) and all(
            key in target and _contains(context, target[key], value) for key, value in candidate.items()
        )
    return _equal(target, candidate)


def _equal(one: Any, other: Any) -> bool:
    """Whether JSON values are the same; 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


@scalar(splits=True)
def json_contains_path(context: CallContext, document: str, how: str, *paths: str) -> int:
    value = loads(document, 1, "json_contains_path")
    hits = [bool(find(value, steps(path))) for path in paths]
    return int(any(hits) if how.lower() == "one" else all(hits))


@scalar(large_result=True, splits=True)
def json_merge_patch(context: CallContext, first: str, *others: str) -> str:
    value = loads(first, 1, "json_merge_patch")
    for other in others:
        value = _patched(value, loads(other, 2, "json_merge_patch"))
    return dumps(value)


def _patched(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _patched(result.get(key), value)
    return result


@scalar(large_result=True, splits=True)
def json_merge_preserve(context: CallContext, first: str, *others: str) -> str:
    value = loads(first, 1, "json_merge_preserve")
    for other in others:
        value = _merged(value, loads(other, 2, "json_merge_preserve"))
    return dumps(value)


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: _merged(one[key], other[key]) for key in one.keys() & other.keys()}
        return {**one, **other, **both}
    return [*(one if isinstance(one, list) else [one]), *(other if isinstance(other, list) else [other])]


@scalar(large_result=True, splits=True)
def json_array_append(context: CallContext, document: str, *changes: str) -> str:
    root = {"": loads(document, 1, "json_array_append")}
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        parsed_path = [".", *steps(path)]
        parents = find(root, parsed_path[:-1])
        values = _step(parents[0], parsed_path[-1]) if parents else []
        if values:
            _put(
                parents[0],
                parsed_path[-1],
                [*(values[0] if isinstance(values[0], list) else [values[0]]), loads(value, 1, "json_array_append")],
            )
    return dumps(root[""])


@scalar(large_result=True, splits=True)
def json_pretty(context: CallContext, document: str) -> str:
    return _written(_sorted(loads(document, 1, "json_pretty")), indent=2)


@scalar(splits=True)
def json_overlaps(context: CallContext, one: str, other: str) -> int:
    first, second = loads(one, 1, "json_overlaps"), loads(other, 2, "json_overlaps")
    if isinstance(first, dict) and isinstance(second, dict):
        return int(any(key in second and second[key] == value for key, value in first.items()))
    left, right = (value if isinstance(value, list) else [value] for value in (first, second))
    return int(any(_equal(a, b) for a in context.until_killed(left) for b in right))


@scalar(splits=True)
def json_depth(context: CallContext, document: str) -> int:
    return _depth(loads(document, 1, "json_depth"))


def _depth(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(item) for item in items), default=0)
