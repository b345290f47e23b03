"""The console behind HTTP: who asks, which page, and what a browser may do with the answer."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from importlib.resources import files
from urllib.parse import parse_qs

from htpy import Node
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.console import html
from lanloom.console.catalogue import AWAY, Catalogue, asked_of, reason_of, refused
from lanloom.console.live import Update, follow, together
from lanloom.console.page import NoSuchPage, Page
from lanloom.console.reading import UserReader
from lanloom.console.sessions import MOST_STREAMS, Session, Sessions
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from lanloom.kube.http import HttpClient
from lanloom.refusals import Denied, Refusal

COOKIE = "lanloom-console"

MOST_LOGINS = 8
"""Tokens that the API server is asked about at a time: any client that reaches this page can send some."""

FORM_BYTES, PASTE_BYTES = 16 * 1024, 512 * 1024
"""Bytes of the form for a token, which has about one KiB, and of one with a manifest."""

SECURITY = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Console:
    """The application.

    `config` is the API server, without credentials: each session brings its own. `hosts` are the names by
    which browsers may ask; a foreign page that uses another name gets nothing. `secure` says that
    browsers come by TLS.
    """

    def __init__(
        self,
        config: ClusterConfig,
        pages: Sequence[Page],
        sessions: Sessions,
        *,
        hosts: frozenset[str],
        secure: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._catalogue = Catalogue(pages, now)
        self._sessions = sessions
        self._secure = secure
        self._logins = asyncio.Semaphore(MOST_LOGINS)
        routes = [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/live", self._live),
            Mount("/static", StaticFiles(directory=str(files("lanloom.console") / "static"))),
            Route("/{path:path}", self._show, methods=["GET", "POST"]),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(_Guard, hosts=hosts)])

    async def _show(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return self._redirect("/login")
        asked, given = asked_of(_address(request)), None
        try:
            given = await _form(request, PASTE_BYTES) if request.method == "POST" else None
            title, body = await self._catalogue.make(session.reader, asked, given)
        except Unauthorized:
            await self._sessions.close(request.cookies.get(COOKIE, ""))
            return self._redirect("/login")
        except (KubeError, Refusal) as error:
            status, title = refused(error)
            why = await reason_of(session.reader, error)
            live = status == AWAY and given is None
            return self._page(title, asked.path, html.message(title, why, asked), status=status, live=live)
        return self._page(title, asked.path, html.raw(body), live=given is None)

    async def _live(self, request: Request) -> Response:
        """Follow the pages of all tabs of a browser; the address of each is a parameter `page`."""
        session = self._session(request)
        if session is None:
            return Response(status_code=401)
        if session.streams >= MOST_STREAMS:
            return Response(status_code=429, headers={"retry-after": "30"})
        pages = dict.fromkeys(request.query_params.getlist("page"))
        found = {page: self._followed(session.reader, page) for page in tuple(pages)[:MOST_STREAMS]}
        known = {page: updates for page, updates in found.items() if updates is not None}
        if not known:
            return Response(status_code=404)
        events = self._counted(session, request.cookies.get(COOKIE, ""), known)
        return StreamingResponse(events, media_type="text/event-stream")

    def _followed(self, reader: UserReader, page: str) -> AsyncGenerator[Update, None] | None:
        """Return what becomes of a page; None for one that there is not."""
        asked = asked_of(page)
        try:
            source = self._catalogue.source(asked)
        except NoSuchPage:
            return None

        async def make() -> str:
            try:
                return (await self._catalogue.make(reader, asked))[1]
            except (Refusal, NotFound, Forbidden) as error:
                return str(html.message(refused(error)[1], await reason_of(reader, error), asked))

        return follow(reader, source, make)

    async def _counted(
        self, session: Session, identifier: str, pages: Mapping[str, AsyncGenerator[Update, None]]
    ) -> AsyncIterator[str]:
        room = MOST_STREAMS - session.streams  # others may have begun since it was asked for
        pages = dict(tuple(pages.items())[: max(room, 0)])
        if not pages:
            return
        session.streams += len(pages)
        try:
            async with aclosing(together(pages, session.ended)) as events:
                async for item in events:
                    yield item
        except Unauthorized:
            await self._sessions.close(identifier)  # the browser asks again, and gets the log-in page
        finally:
            session.streams -= len(pages)

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            secret = request.query_params.get("once", "")
            if not secret:
                return self._page("Log in", "", html.login(""), menu=False)
            config = self._sessions.redeem(secret)
            if config is None:
                why = "this link was used already, or is too old; start the console again for another one"
                return self._page("Log in", "", html.login(why), status=403, menu=False)
            return await self._welcome(config)
        try:
            token = (await _form(request)).get("token", "").strip()
        except Denied:
            token = ""
        config = self._config.with_token(token)
        async with self._logins:
            why = await _why_refused(config)
        if why:
            return self._page("Log in", "", html.login(why), status=403, menu=False)
        return await self._welcome(config)

    async def _welcome(self, config: ClusterConfig) -> Response:
        answer = self._redirect("/")
        answer.set_cookie(
            COOKIE, await self._sessions.open(config), httponly=True, samesite="strict", secure=self._secure
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        await self._sessions.close(request.cookies.get(COOKIE, ""))
        answer = self._redirect("/login")
        answer.delete_cookie(COOKIE)
        return answer

    def _session(self, request: Request) -> Session | None:
        return self._sessions.find(request.cookies.get(COOKIE, ""))

    def _redirect(self, path: str) -> Response:
        return RedirectResponse(path, status_code=303)

    def _page(
        self,
        title: str,
        path: str,
        body: Node,
        *,
        status: int = 200,
        live: bool = False,
        menu: bool = True,
    ) -> Response:
        shown = self._catalogue.menu if menu else ()
        return HTMLResponse(html.document(title, shown, path, body, live=live), status_code=status)


class _Guard:
    """Answer only what is asked by a known name, and say how a browser is to treat the answer."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in SECURITY.items()),
                ]
            await send(message)

        if scope["type"] != "http":
            return
        request = Request(scope)
        if why := self._refusal(request):
            await Response(why, status_code=403, media_type="text/plain")(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _refusal(self, request: Request) -> str:
        host = request.headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            return f"this console is not called {_name(host)}; name it by --host-name\n"
        origin = request.headers.get("origin", "")
        if request.method == "POST" and origin.partition("://")[2] != host:
            return "a form of another site is not accepted\n"
        return ""


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).strip("[]")


def _address(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


async def _why_refused(config: ClusterConfig) -> str:
    """Ask the API server whether it knows the user. What he may read is not asked: it answers each page by itself."""
    if not config.token:
        return "give a token"
    try:
        async with HttpClient(config) as client:
            await client.list(CLUSTER_NETWORKS)
    except Unauthorized:
        return "the API server does not know this token; it may be too old"
    except (Forbidden, NotFound):
        return ""
    except (KubeError, ValueError) as error:
        return str(error)
    return ""


async def _form(request: Request, most: int = FORM_BYTES) -> dict[str, str]:
    """Return the fields of a form, each once; none if it does not come. Raises Denied if it is too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(10):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise Denied(f"a form may have {most // 1024} KiB; use the command line for more")
    except (ClientDisconnect, TimeoutError):
        return {}
    return {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
