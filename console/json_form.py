"""Values for programs: what a page reads as JSON, and the description of the API, made from the routes. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from console.visits import Action, Page, Parameter
from engine.model.queue import QueueName
from proxy.release import release

BASE = "/api/v1"


def plain(value: Any) -> Any:
    """As JSON can have it: exact, so decimals as text; bytes that are no text in hexadecimal, so marked."""
    match value:
        case QueueName(database, table):
            return {"database": database, "name": table}
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"hex": value.hex()}
        case datetime():
            return value.isoformat(" ")
        case Decimal() | date() | timedelta():
            return str(value)
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple() | frozenset():
            return [plain(inner) for inner in value]
        case _ if dataclasses.is_dataclass(value):
            return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
        case _:
            return value


def description(pages: Iterable[Page], actions: Iterable[Action]) -> dict[str, Any]:
    """The API in the form of OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        if page.api:
            paths.setdefault(BASE + page.api, {})["get"] = _operation(page.summary, _in_query(page.parameters))
    for action in actions:
        if action.api:
            operation = _operation(action.summary, [])
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": _body(action.parameters)}},
            }
            paths.setdefault(BASE + action.api, {})["post"] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "queuegate console", "version": release(), "description": _ABOUT},
        "paths": paths,
        "security": [{"basic": []}],
        "components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}},
    }


_ABOUT = (
    "What the pages of the console show, and what they change, for programs. Accounts and rights are those of SQL. "
    "Messages are sent and received in SQL, not here."
)


def _operation(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    refused = {"description": "an object `error` with MySQL's `number`, where there is one, and a `message`"}
    answers = {"200": {"description": "a JSON object"}}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {**answers, **dict.fromkeys(("400", "401", "403", "404", "409", "503", "504"), refused)},
    }


def _in_query(parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "in": "query",
            "description": each.meaning,
            "required": each.required,
            "schema": {"type": "string"},
        }
        for each in parameters
    ]


def _body(parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: {"type": "string", "description": each.meaning} for each in parameters},
        "required": [each.name for each in parameters if each.required],
    }
