"""HTTP for pages and actions: each kind of route as one function, so that all pages are checked alike.

What a page raises becomes an answer here: MySQL's errors with their numbers, invalid input, sessions that have
ended. A traceback goes to the log and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from console.database import AccountRefused, DatabaseError, DatabaseUnavailable, ProxyUnavailable, TooSlow
from console.entry import CrossSiteRequest, Entry, LoginRefused, Unauthorized, address_of
from console.hosts import local_path
from console.json_form import BASE, plain
from console.rates import Rates
from console.rendering import EXACT, STATIC, link
from console.sessions import Session
from console.visits import Action, BadInput, NotFound, Page, Visit
from engine.shared_future import wait_shared

log = logging.getLogger(__name__)

FIELDS_MAX = 200
SQL_SHOWN_MAX = 4000  # characters of a statement that an action has run; a body may have many more
_DENIED = frozenset((1044, 1095, 1142, 1143, 1227, 1370))
_MISSING = frozenset((1049, 1094, 1146, 1347, 1539))
_THERE_ALREADY = frozenset((1050, 1537))
_TOKEN_HEADER = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no page. `number`: MySQL's, 0 where it has none."""

    status: int
    title: str
    message: str
    number: int = 0


def trouble_of(error: Exception) -> Trouble:
    """How the reader sees an error. Raises it again where it is a defect."""
    match error:
        case BadInput():
            return Trouble(400, "This address or form cannot be read", str(error))
        case NotFound():
            return Trouble(404, "Not found", str(error))
        case CrossSiteRequest():
            return Trouble(
                403, "Request refused", "the request does not come from a page of this console: reload the page"
            )
        case LoginRefused():
            return Trouble(error.status, "Not logged in", error.message, error.number)
        case Unauthorized():
            return Trouble(401, "Not logged in", "give the name and the password of an account")
        case TooSlow():
            return Trouble(504, "Too slow", error.message, error.number)
        case DatabaseUnavailable():
            return Trouble(503, "The database does not answer", error.message, error.number)
        case ProxyUnavailable():
            return Trouble(503, "The proxy does not answer", error.message, error.number)
        case AccountRefused():
            return Trouble(401, "Not logged in", error.message, error.number)
        case DatabaseError() if error.number in _DENIED:
            return Trouble(403, "Not allowed", error.message, error.number)
        case DatabaseError() if error.number in _MISSING:
            return Trouble(404, "Not found", error.message, error.number)
        case DatabaseError() if error.number in _THERE_ALREADY:
            return Trouble(409, "Already exists", error.message, error.number)
        case DatabaseError():
            return Trouble(400, "The statement was refused", error.message, error.number)
        case _:
            raise error


EXPECTED = (BadInput, NotFound, CrossSiteRequest, LoginRefused, Unauthorized, DatabaseError)


class Endpoints:
    """See the module. `navigation`: the pages that have an entry there, with their titles. `forms`: the pages by their
    paths, for those that have a form."""

    def __init__(
        self,
        entry: Entry,
        rates: Rates,
        templates: Environment,
        navigation: tuple[tuple[str, str], ...],
        forms: Mapping[str, Page],
    ) -> None:
        self._entry = entry
        self._rates = rates
        self._templates = templates
        self._navigation = navigation
        self._forms = forms
        self._shared = SharedReads(entry.connector.clock)

    # --- pages

    async def page(self, page: Page, request: Request) -> Response:
        """A page for people, or a part of one."""
        try:
            session = self._entry.session_of(request, use=not page.refresh)
        except Unauthorized:
            return self._to_login(request)
        try:
            visit = self._visit(session, request.query_params, request)
            seen = await (self._shared.read(page, visit) if page.refresh else page.read(visit))
        except EXPECTED as error:
            return self._failed(error, session, request)
        return self._shown(page.template, session, request, seen=seen)

    def _visit(self, session: Session, params: Mapping[str, str], request: Request) -> Visit:
        return Visit(session, params, self._rates, self._entry.connector.clock(), address_of(request))

    def _shown(
        self, template: str, session: Session | None, request: Request, status: int = 200, **values: Any
    ) -> Response:
        notice, ran, undo = "", "", None
        if session is not None and not _is_part(request):
            notice, session.notice = session.notice, ""
            ran, session.ran = session.ran, ""
            undo, session.undo = session.undo, None
        text = self._templates.get_template(template).render(
            account=None if session is None else session.account,
            token=None if session is None else session.token,
            navigation=self._navigation,
            here=request.url.path,
            address=f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path,
            notice=notice,
            ran=ran,
            undo=undo,
            **{"refused": None, "typed": {}, **values},
        )
        return HTMLResponse(text, status)

    def _failed(self, error: Exception, session: Session | None, request: Request) -> Response:
        if isinstance(error, AccountRefused) and session is not None:
            log.warning("session ended: the account is refused", extra={"account": session.account})
            self._entry.sessions.end(session)
            return self._to_login(request)
        trouble = trouble_of(error)
        template = "trouble_part.html" if _is_part(request) else "trouble.html"
        return self._shown(template, session, request, trouble.status, trouble=trouble)

    def _to_login(self, request: Request) -> Response:
        if _is_part(request):
            return Response(status_code=401, headers={"HX-Redirect": "/login"})
        goto = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        where = "/login" if goto == "/" or request.method != "GET" else f"/login?next={quote(goto, safe='')}"
        return RedirectResponse(where, 303)

    # --- actions

    async def action(self, action: Action, request: Request) -> Response:
        """A form of a page."""
        try:
            session = self._entry.session_of(request)
        except Unauthorized:
            return self._to_login(request)
        try:
            fields = await self._form(session, request)
        except EXPECTED as error:
            return self._failed(error, session, request)
        try:
            done = await self._change(action, session, fields, request)
        except EXPECTED as error:
            return await self._form_again(action, error, session, fields, request)
        session.notice, session.ran, session.undo = done.notice, shortened(done.sql or done.statement), done.undo
        if done.again:
            session.ran += f";\n\n-- makes it again, without its messages:\n{done.again}"
        return RedirectResponse(done.goto, 303)

    async def _form_again(
        self, action: Action, error: Exception, session: Session, fields: Mapping[str, str], request: Request
    ) -> Response:
        """The form of an action that was refused, with the reason and with what was filled in; the reason alone where
        there is no form, or where its page is refused, too."""
        page = self._forms.get(action.form)
        if page is None or isinstance(error, AccountRefused | ProxyUnavailable | DatabaseUnavailable):
            return self._failed(error, session, request)
        try:
            seen = await page.read(self._visit(session, fields, request))
        except EXPECTED:
            return self._failed(error, session, request)
        trouble = trouble_of(error)
        return self._shown(
            page.template, session, request, trouble.status, seen=seen, refused=trouble, typed=_without_token(fields)
        )

    async def part_of_form(self, page: Page, request: Request) -> Response:
        """What a form is answered with while it is being filled in. It changes nothing, and is checked all the same."""
        try:
            session = self._entry.session_of(request)
        except Unauthorized:
            return self._to_login(request)
        try:
            seen = await page.read(self._visit(session, await self._form(session, request), request))
        except EXPECTED as error:
            return self._failed(error, session, request)
        return self._shown(page.template, session, request, seen=seen)

    async def _form(self, session: Session, request: Request) -> Mapping[str, str]:
        """The fields of a form that a page of this session has shown."""
        self._entry.check_origin(request)
        fields = await fields_of(request)
        if not session.has_token(fields.get("token", "")):
            raise CrossSiteRequest
        return fields

    async def _change(self, action: Action, session: Session, fields: Mapping[str, str], request: Request) -> Any:
        about = {"account": session.account, "address": address_of(request), "action": action.path}
        try:
            done = await action.change(self._visit(session, fields, request))
        except (BadInput, NotFound):
            raise
        except DatabaseError as error:
            log.info("change refused", extra={**about, "number": error.number})
            raise
        log.info("change", extra={**about, "statement": done.statement, "outcome": done.notice})
        return done

    # --- the API

    async def api_page(self, page: Page, request: Request) -> Response:
        """The same as a page, as JSON."""
        session = None
        try:
            session = await self._entry.program_of(request)
            seen = await page.read(self._visit(session, request.query_params, request))
        except EXPECTED as error:
            return self._api_failed(error, session)
        return JSONResponse(plain(seen))

    async def api_action(self, action: Action, request: Request) -> Response:
        """The same as a form. A request with a cookie needs the session's token, too."""
        session = None
        try:
            session = await self._entry.program_of(request)
            self._entry.check_origin(request)
            by_cookie = "authorization" not in request.headers
            if by_cookie and not session.has_token(request.headers.get(_TOKEN_HEADER, "")):
                raise CrossSiteRequest
            done = await self._change(action, session, await _json_of(request), request)
        except EXPECTED as error:
            return self._api_failed(error, session)
        body = {"done": done.notice, "statement": done.sql or done.statement, **done.result}
        return JSONResponse(plain(body))

    def _api_failed(self, error: Exception, session: Session | None) -> Response:
        if isinstance(error, AccountRefused) and session is not None:
            self._entry.sessions.end(session)
        trouble = trouble_of(error)
        headers = {}
        if trouble.status == 401:
            headers["www-authenticate"] = 'Basic realm="queuegate", charset="UTF-8"'
        if isinstance(error, LoginRefused) and error.wait:
            headers["retry-after"] = f"{error.wait:.0f}"
        return _as_json(trouble, headers)

    # --- login and logout

    async def login_page(self, request: Request) -> Response:
        """The form."""
        goto = local_path(request.query_params.get("next", "/"))
        return self._shown("login.html", None, request, goto=goto, trouble=None, name="")

    async def log_in(self, request: Request) -> Response:
        """The form, sent."""
        fields: Mapping[str, str] = {}
        try:
            self._entry.check_origin(request)
            fields = await fields_of(request)
            account, password = fields.get("account", ""), fields.get("password", "")
            session = await self._entry.log_in(address_of(request), account, password)
        except EXPECTED as error:
            trouble = trouble_of(error)
            response = self._shown(
                "login.html", None, request, trouble.status,
                goto=local_path(fields.get("next", "/")), trouble=trouble, name=fields.get("account", "")[:128],
            )  # fmt: skip
            if isinstance(error, LoginRefused) and error.wait:
                response.headers["retry-after"] = f"{error.wait:.0f}"
            return response
        try:
            self._entry.sessions.end(self._entry.session_of(request))  # of a user who logs in again
        except Unauthorized:
            pass
        redirect = RedirectResponse(local_path(fields.get("next", "/")), 303)
        self._entry.set_cookie(redirect, session)
        return redirect

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        try:
            session = self._entry.session_of(request)
            await self._form(session, request)
        except Unauthorized:
            return RedirectResponse("/login", 303)
        except EXPECTED as error:
            return self._failed(error, None, request)
        self._entry.sessions.end(session)
        log.info("logged out", extra={"account": session.account, "address": address_of(request)})
        redirect = RedirectResponse("/login", 303)
        self._entry.drop_cookie(redirect)
        return redirect

    # --- what needs no login

    async def static(self, request: Request) -> Response:
        """A file, under its address with the version."""
        kind, data = STATIC.get(request.path_params["name"], ("", b""))
        if not kind:
            return self._nothing_here(request)
        return Response(data, media_type=kind, headers={"cache-control": "public, max-age=86400"})

    async def nothing_here(self, request: Request, _: Exception) -> Response:
        """Any other address."""
        return self._nothing_here(request)

    def _nothing_here(self, request: Request) -> Response:
        trouble = Trouble(404, "Not found", f"there is no page {request.url.path[:200]}")
        return self._bare(trouble, request)

    async def wrong_method(self, request: Request, _: Exception) -> Response:
        """Another method than the route has."""
        trouble = Trouble(405, "Method not allowed", f"{request.method[:20]} is not allowed here")
        return self._bare(trouble, request)

    async def defect(self, request: Request, error: Exception) -> Response:
        """An unexpected exception."""
        log.error("a page failed", exc_info=error, extra={"path": request.url.path[:200]})
        trouble = Trouble(500, "Internal error", "the page failed; see the log of the console")
        return self._bare(trouble, request)

    def _bare(self, trouble: Trouble, request: Request) -> Response:
        """What has gone wrong before there is a page, in the form that is asked for."""
        if request.url.path.startswith(f"{BASE}/"):
            return _as_json(trouble)
        return self._shown("trouble.html", None, request, trouble.status, trouble=trouble)


def _as_json(trouble: Trouble, headers: Mapping[str, str] | None = None) -> Response:
    body = {"number": trouble.number or None, "message": trouble.message}
    return JSONResponse(plain({"error": body}), trouble.status, headers)


def _without_token(fields: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in fields.items() if name != "token"}


def _is_part(request: Request) -> bool:
    """Whether a script of a page asks for a part of it."""
    return "hx-request" in request.headers


async def fields_of(request: Request) -> Mapping[str, str]:
    """The fields of a form; of several of one name the last; line breaks as `\\n`, or as they are where the page has
    encoded them. Raises BadInput."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadInput("the form is not of the kind application/x-www-form-urlencoded")
    try:
        text = (await request.body()).decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
        return dict(
            (name.removeprefix(EXACT), unquote(value, errors="strict"))
            if name.startswith(EXACT)
            else (name, value.replace("\r\n", "\n"))
            for name, value in fields
        )
    except ValueError:
        raise BadInput("the form cannot be read") from None


async def _json_of(request: Request) -> Mapping[str, str]:
    """The members of an object, as text. Raises BadInput."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadInput("the body is not of the kind application/json")
    try:
        members = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise BadInput("the body is not JSON") from None
    if not isinstance(members, dict) or len(members) > FIELDS_MAX:
        raise BadInput("the body is not an object")
    if not all(isinstance(value, str | int) for value in members.values()):
        raise BadInput("the values of the object have to be strings or whole numbers")
    return {name: str(value) for name, value in members.items()}


def shortened(sql: str) -> str:
    """A statement for a page."""
    return sql if len(sql) <= SQL_SHOWN_MAX else f"{sql[:SQL_SHOWN_MAX]} ..."


def back_to(path: str, visit: Visit) -> str:
    """The page of a queue to which an action returns."""
    return link(path, db=visit.queue.database, name=visit.queue.table)


SHARED_SECONDS = 2.5
SHARED_READS_MAX = 1000

_Key = tuple[bytes, str, frozenset[tuple[str, str]]]


class SharedReads:
    """Reads that open pages repeat, done once for all that show the same page with the same login.

    A part of a page that refreshes itself is read at most once in SHARED_SECONDS for the same name and password and
    the same parameters: ten screens in an office cost what two do. Nothing else is shared: a page that is opened, or
    that follows an action, is read again.

    Times are those of `clock`, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reads: dict[_Key, tuple[float, asyncio.Task[Any]]] = {}

    async def read(self, page: Page, visit: Visit) -> Any:
        """What the page reads, or what it has read for another just now. Raises what it raises; errors are not stored
        for later readers."""
        key = (visit.session.database.login, page.path, frozenset(visit.params.items()))
        began, task = self._reads.get(key, (0.0, None))
        if task is None or self._clock() - began >= SHARED_SECONDS or _failed(task):
            self._forget()
            task = asyncio.ensure_future(page.read(visit))
            self._reads[key] = (self._clock(), task)
        return await wait_shared(task)  # it goes on for the others where one of them leaves

    def _forget(self) -> None:
        """What is too old goes, and where there are very many, everything."""
        before = self._clock() - SHARED_SECONDS
        self._reads = {key: read for key, read in self._reads.items() if read[0] > before}
        if len(self._reads) >= SHARED_READS_MAX:
            self._reads.clear()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
