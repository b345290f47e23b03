"""The console behind HTTP: who asks, which page, and what a browser may do with the answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from urllib.parse import parse_qs

from htpy import Node
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, compile_path
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.multus import is_name
from lanloom.console import html
from lanloom.console.frontpage import read_front
from lanloom.console.live import stream
from lanloom.console.page import Asked, NoSuchPage, Page
from lanloom.console.sessions import MOST_STREAMS, Session, Sessions
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized
from lanloom.kube.firstcontact import explain
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Watcher
from lanloom.kube.scoped import Scoped
from lanloom.refusals import Denied, Refusal

COOKIE = "lanloom-console"

FORM_BYTES, PASTE_BYTES = 16 * 1024, 512 * 1024
"""Bytes of the form for a token, which has about one KiB, and of one with a manifest."""

SECURITY = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Console:
    """The application.

    `config` is the API server, with the credentials of nobody: each session brings its own. `hosts` are the names by
    which browsers may ask; a page of somebody else's that calls us by another name gets nothing. `secure` says that
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
        self._pages = {page.path: page for page in pages}
        self._menu = tuple(page for page in pages if page.menu)
        self._front = tuple(page for page in self._menu if page.front)
        self._sessions = sessions
        self._secure = secure
        self._now = now
        self._paths = [(path, compile_path(path)[0]) for path in ("/", *self._pages)]
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
        asked, live, status = _asked(request), False, 200
        try:
            given = await _form(request, PASTE_BYTES) if request.method == "POST" else None
            title, body = await self._made(session.client, asked, given)
            live = given is None
        except Unauthorized:
            await self._sessions.close(request.cookies.get(COOKIE, ""))
            return self._redirect("/login")
        except (KubeError, Refusal) as error:
            status, title, body = *_refused(error), ""
            why = await _why(session.client, error)
            return self._page(title, asked.path, html.message(title, why, asked), status=status)
        return self._page(title, asked.path, html.raw(body), status=status, live=live)

    async def _made(
        self, client: HttpClient, asked: Asked, given: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """Return the title of a page, and its HTML between menu and end. Raises KubeError, Refusal.

        `given` are the fields of its form, None if it was not sent.
        """
        at = time.strftime("%H:%M:%S", time.gmtime(self._now()))
        page, names = self._find(asked.path)
        reader = _scoped(client, asked, names)
        if page is None:
            return "Overview", await read_front(reader, self._front, asked, at)
        if given is None:
            content = await page.read(reader, names)
        elif page.answer is not None:
            content = await page.answer(reader, names, given)
        else:
            raise NoSuchPage(f"{asked.path} takes no form")
        return content.title, html.main(
            content, page, self._above(page), page.command.format(**names), asked, at
        )

    def _above(self, page: Page) -> Page | None:
        """Return the page of the menu that lists what a page is one of."""
        parent = self._pages.get(f"/{page.path.split('/')[1]}")
        return parent if parent is not page else None

    def _find(self, path: str) -> tuple[Page | None, Mapping[str, str]]:
        """Return the page of a path and the names in it; None for the first page. Raises NoSuchPage."""
        for known, pattern in self._paths:
            if found := pattern.match(path):
                return self._pages.get(known), found.groupdict()
        raise NoSuchPage(f"there is no page {path}; choose one of the menu")

    async def _live(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return Response(status_code=401)
        if session.streams >= MOST_STREAMS:
            return Response(status_code=429, headers={"retry-after": "30"})
        asked = _asked(request, request.query_params.get("path", "/"))
        try:
            page, names = self._find(asked.path)
            reader = _scoped(session.client, asked, names)
        except NoSuchPage:
            return Response(status_code=404)
        kinds = (
            page.kinds if page is not None else tuple(dict.fromkeys(k for p in self._front for k in p.kinds))
        )

        async def make() -> str:
            try:
                return (await self._made(session.client, asked))[1]
            except (Refusal, NotFound, Forbidden) as error:
                return str(html.message(_refused(error)[1], await _why(session.client, error), asked))

        return StreamingResponse(
            self._counted(session, stream(reader, kinds, make)), media_type="text/event-stream"
        )

    async def _counted(self, session: Session, events: AsyncIterator[str]) -> AsyncIterator[str]:
        session.streams += 1
        try:
            async for item in events:
                yield item
        finally:
            session.streams -= 1

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            secret = request.query_params.get("once", "")
            if not secret:
                return self._page("Log in", "", html.login(""), menu=False)
            config = self._sessions.redeem(secret)
            if config is None:
                why = "this link was used already, or is too old; start the console anew for another one"
                return self._page("Log in", "", html.login(why), status=403, menu=False)
            return await self._welcome(config)
        try:
            token = (await _form(request)).get("token", "").strip()
        except Denied:
            token = ""
        config = self._config.with_token(token)
        if why := await _why_refused(config):
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
        shown = self._menu if menu else ()
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


def _asked(request: Request, path: str = "") -> Asked:
    query = request.query_params
    return Asked(
        path=path or request.url.path,
        words=query.get("q", "")[:200],
        namespace=query.get("namespace", "")[:63],
        everything=query.get("show") == "all",
    )


def _scoped(client: Watcher, asked: Asked, names: Mapping[str, str]) -> Watcher:
    """Return the client for the namespace that the path or the reader names; for all without one.

    Raises NoSuchPage for a name that no namespace can have: it would end up in the path of a request.
    """
    namespace = names.get("namespace", asked.namespace)
    if any(not is_name(name) for name in (*names.values(), *filter(None, (asked.namespace,)))):
        raise NoSuchPage(f"there is no page {asked.path}; choose one of the menu")
    return Scoped(client, namespace) if namespace else client


async def _why(client: HttpClient, error: KubeError | Refusal) -> str:
    """Return what a page says instead of its content."""
    return await explain(client, error) if isinstance(error, KubeError) else str(error)


def _refused(error: Exception) -> tuple[int, str]:
    """Return the status and the title of a page that can't be made."""
    if isinstance(error, Forbidden):
        return 403, "You may not see this"
    if isinstance(error, Refusal | NotFound):
        return 404, "There is nothing here"
    return 502, "The API server does not answer"


async def _why_refused(config: ClusterConfig) -> str:
    """Ask the API server whether it knows the user. What he may read is not asked: it answers each page by itself."""
    if not config.token:
        return "give a token"
    try:
        async with HttpClient(config) as client:
            await client.list(CLUSTER_NETWORKS)
    except Unauthorized:
        return "the API server does not know this token; it may be too old"
    except ApiError:
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
