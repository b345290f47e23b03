"""The ASGI application: authenticate, impersonate, route and authorize a request; then hand it to its handler."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import structlog

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors
from lanloom.runtime.https.errors import wrong_method
from lanloom.runtime.https.shares import Shares
from lanloom_embedded.authz import Attempt, Authorizer
from lanloom_embedded.client import fetch
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.front.authentication import ANONYMOUS_NAME, UNAUTHENTICATED, effective_user
from lanloom_embedded.front.bodies import Disconnected, Receive
from lanloom_embedded.front.documents import Documents
from lanloom_embedded.front.exchange import (
    Exchange,
    NoSuchPath,
    Send,
    Target,
    target_of,
    verb_of,
)
from lanloom_embedded.front.objects import Objects
from lanloom_embedded.front.proxy import Fetch, PodProxy
from lanloom_embedded.front.rendering import Renderer
from lanloom_embedded.front.reviews import Reviews
from lanloom_embedded.front.watches import Streams
from lanloom_embedded.selectors import required_name

log = structlog.get_logger(__name__)

BACKUP_PATH = "/backup"

_SQLITE = (b"content-type", b"application/vnd.sqlite3")


class Backups:
    """Answers requests for a copy of the data."""

    def __init__(self, engine: Engine, authorizer: Authorizer) -> None:
        self._engine = engine
        self._authorizer = authorizer

    async def serve(self, exchange: Exchange, user: UserInfo) -> None:
        """Answer one request. Raises Forbidden, MethodNotAllowed.

        The right to the path is not enough: the copy has all Secrets, that of the administrator among them.
        """
        if exchange.method != "GET":
            raise wrong_method()
        self._authorizer.check(user, Attempt(verb="list", resource="secrets"))
        await exchange.answer_raw(await self._engine.backup(), _SQLITE)


ANONYMOUS = UserInfo(username=ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))

FindUser = Callable[[str], UserInfo | None]


class ApiServer:
    """The application. `find_user` gives the user of a bearer token, `get` what a pod answers to a URL."""

    def __init__(
        self,
        engine: Engine,
        find_user: FindUser,
        *,
        now: Callable[[], float],
        rng: Random,
        version: str,
        watches_per_user: int = 1024,
        get: Fetch = fetch,
    ) -> None:
        self._engine = engine
        self._find_user = find_user
        self._authorizer = engine.authorizer
        renderer = Renderer(engine.registry, now)
        self._objects = Objects(engine, renderer, Streams(renderer, rng, watches_per_user))
        self._reviews = Reviews(self._authorizer)
        self._documents = Documents(engine.registry, version)
        self._backups = Backups(engine, self._authorizer)
        self._proxy = PodProxy(engine, get)
        self._shares = Shares()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            raise ValueError(f"this application speaks HTTP only, not {scope['type']}")
        exchange = Exchange(scope, receive, send)
        try:
            await self._serve(exchange)
        except errors.StatusError as error:
            await exchange.refuse(error)
        except NoSuchPath:
            await self._documents.nothing(exchange, target_of(exchange.path))
        except Disconnected:
            log.debug("client left", method=exchange.method, path=exchange.path)
        except RecursionError:
            await exchange.refuse(errors.BadRequest("the object is nested too deeply"))
        except MemoryError:
            raise
        except Exception as error:
            log.exception("request failed", method=exchange.method, path=exchange.path)
            if exchange.begun:
                raise
            await exchange.refuse(errors.internal(f"{type(error).__name__}; the server's log says more"))

    async def _serve(self, exchange: Exchange) -> None:
        target = target_of(exchange.path)
        requester = self._authenticate(exchange)
        user = effective_user(requester, exchange.headers, self._authorizer)
        with self._shares.of(requester.username) as exchange.share:
            await self._answer(exchange, target, user)

    async def _answer(self, exchange: Exchange, target: Target, user: UserInfo) -> None:
        if not target.plural:
            self._authorizer.check(user, Attempt(verb=exchange.method.lower(), path=target.path))
            if target.path == BACKUP_PATH:
                await self._backups.serve(exchange, user)
            else:
                await self._documents.serve(exchange, target)
            return
        verb = verb_of(exchange.method, target, exchange.query)
        self._authorizer.check(user, _attempt(target, verb, exchange.query))
        kind = self._engine.registry.find(target.group, target.version, target.plural)
        if kind is None:
            await self._documents.nothing(exchange, target)
        elif not kind.storage:
            await self._reviews.serve(exchange, kind, verb, user)
        elif self._proxy.answers(kind, target):
            await self._proxy.serve(exchange, kind, target)
        else:
            await self._objects.serve(exchange, kind, target, verb, user)

    def _authenticate(self, exchange: Exchange) -> UserInfo:
        """Raise Unauthorized for unknown credentials."""
        credentials = exchange.header(b"authorization")
        if not credentials:
            return ANONYMOUS
        scheme, _, token = credentials.partition(" ")
        user = self._find_user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.Unauthorized
        return user


def _attempt(target: Target, verb: str, query: Mapping[str, str]) -> Attempt:
    chosen = query.get("fieldSelector", "") if verb in ("list", "watch") else ""
    return Attempt(
        verb=verb,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=required_name(chosen) if chosen else target.name,
    )
