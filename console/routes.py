"""All routes, in one table: pages, what they refresh, actions, and what needs no login.

A page or an action is added here and nowhere else; `tests/console/test_every_route.py` tries each with four kinds of
accounts, and fails where one is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from console.endpoints import Endpoints
from console.entry import Entry
from console.guard import BodyRefused, Guard
from console.json_form import BASE, description
from console.pages import (
    create_group,
    create_queue,
    create_schedule,
    ending,
    event_groups,
    log,
    overview,
    publish,
    queue,
    queue_options,
    receivers,
    schedules,
    seek,
    system,
    topic,
)
from console.pages.messages import dead_letters, dead_pieces, editing, matching, message, settling
from console.rates import Rates
from console.rendering import environment
from console.visits import Action, Page

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *dead_letters.PAGES,
    *receivers.PAGES,
    *schedules.PAGES,
    *queue.PAGES,
    *message.PAGES,
    *publish.PAGES,
    *ending.PAGES,
    *create_queue.PAGES,
    *create_group.PAGES,
    *create_schedule.PAGES,
    *editing.PAGES,
    *dead_pieces.PAGES,
    *matching.PAGES,
    *queue_options.PAGES,
    *topic.PAGES,
    *seek.PAGES,
    *event_groups.PAGES,
    *log.PAGES,
    *system.PAGES,
)
PARTS_OF_FORMS: tuple[Page, ...] = (
    *create_queue.PARTS_OF_FORMS,
    *create_group.PARTS_OF_FORMS,
    *create_schedule.PARTS_OF_FORMS,
    *publish.PARTS_OF_FORMS,
    *queue_options.PARTS_OF_FORMS,
    *settling.PARTS_OF_FORMS,
)
ACTIONS: tuple[Action, ...] = (
    *queue.ACTIONS,
    *publish.ACTIONS,
    *ending.ACTIONS,
    *create_queue.ACTIONS,
    *create_group.ACTIONS,
    *create_schedule.ACTIONS,
    *settling.ACTIONS,
    *editing.ACTIONS,
    *dead_pieces.ACTIONS,
    *matching.ACTIONS,
    *receivers.ACTIONS,
    *queue_options.ACTIONS,
    *schedules.ACTIONS,
    *seek.ACTIONS,
)
NAVIGATION = tuple((page.path, page.nav) for page in PAGES if page.nav)

_Endpoint = Callable[[Request], Awaitable[Response]]


def application(entry: Entry, rates: Rates, *, behind_proxy: bool) -> ASGIApp:
    """The console as ASGI."""
    to = Endpoints(
        entry, rates, environment(), NAVIGATION, {page.path: page for page in (*PAGES, *PARTS_OF_FORMS) if page.path}
    )
    starlette = Starlette(
        routes=_routes(to),
        exception_handlers={404: to.nothing_here, 405: to.wrong_method, HTTPException: to.nothing_here},
    )
    return Guard(starlette, entry.hosts, entry.is_logged_in, encrypted=entry.encrypted, behind_proxy=behind_proxy)


def _routes(to: Endpoints) -> list[Route]:
    made = [
        Route("/login", _with(to, to.login_page), methods=["GET"]),
        Route("/login", _with(to, to.log_in), methods=["POST"]),
        Route("/logout", _with(to, to.log_out), methods=["POST"]),
        Route("/static/{name}", _with(to, to.static), methods=["GET"]),
        Route(f"{BASE}/openapi.json", _openapi, methods=["GET"]),
    ]
    for page in PAGES:
        if page.path:
            made.append(Route(page.path, _with(to, to.page, page), methods=["GET"]))
        if page.api:
            made.append(Route(BASE + page.api, _with(to, to.api_page, page), methods=["GET"]))
    made += [Route(part.path, _with(to, to.part_of_form, part), methods=["POST"]) for part in PARTS_OF_FORMS]
    for action in ACTIONS:
        made.append(Route(action.path, _with(to, to.action, action), methods=["POST"]))
        made.append(Route(BASE + action.api, _with(to, to.api_action, action), methods=["POST"]))
    return made


def _with(to: Endpoints, endpoint: Callable[..., Awaitable[Response]], *what: Page | Action) -> _Endpoint:
    """An endpoint for one page or action; whatever it raises is answered as well."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(*what, request)
        except ClientDisconnect:
            return Response(status_code=400)  # which no one reads
        except BodyRefused as error:
            return PlainTextResponse(error.message, error.status, {"connection": "close"})
        except Exception as error:
            return await to.defect(request, error)

    return answered


async def _openapi(_: Request) -> Response:
    return JSONResponse(description(PAGES, ACTIONS))
