"""A client between a process and an API server: a test says in one place what happens to requests."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError, TransportError
from lanloom.kube.ports import Client, Listing, WatchEvent

T = TypeVar("T", bound=Object)

Verb = Literal["get", "list", "create", "patch", "delete"]

READS: tuple[Verb, ...] = ("get", "list")
WRITES: tuple[Verb, ...] = ("create", "patch", "delete")

Deed = Callable[[], Awaitable[object]]
"""What another client does; it may raise what the client gets instead of an answer."""


class Request(NamedTuple):
    """A request but a watch. `body` is what it writes; the operations of a JSON patch are a sequence.

    `options` are the named arguments of the port's method, as they were given.
    """

    verb: Verb
    resource: Resource[Any]
    name: str = ""
    namespace: str = ""
    body: Any = None
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def selector(self) -> str:
        """The selector of a list, by labels or by fields."""
        found: str = self.options.get("labels") or self.options.get("fields", "")
        return found

    @property
    def subresource(self) -> str:
        """The subresource that a patch writes."""
        found: str = self.options.get("subresource", "")
        return found

    @property
    def merges(self) -> bool:
        """Whether it is a merge patch."""
        return self.verb == "patch" and isinstance(self.body, Mapping)

    @property
    def names_version(self) -> bool:
        """Whether it is a merge patch on a version of the object."""
        return self.merges and "resourceVersion" in self.body.get("metadata", {})

    def unfenced(self) -> "Request":
        """The same merge patch without metadata, and so on whatever version the object has."""
        return self._replace(body={key: value for key, value in self.body.items() if key != "metadata"})


def _any(_request: Request) -> bool:
    return True


class Interceptor:
    """Pass everything on to `inner`. A class that overrides `send` or `_hear` decides about requests, or watches."""

    def __init__(self, inner: Client) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Any:
        """Make a request but a watch."""
        inner, resource, name, namespace = self._inner, request.resource, request.name, request.namespace
        match request.verb:
            case "get":
                return await inner.get(resource, name, namespace)
            case "list":
                return await inner.list(resource, namespace, **request.options)
            case "create":
                return await inner.create(resource, request.body, namespace)
            case "patch":
                patch = inner.patch if isinstance(request.body, Mapping) else inner.json_patch
                return await patch(resource, name, request.body, namespace, **request.options)
            case "delete":
                return await inner.delete(resource, name, namespace, **request.options)

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch, which `begin` opens."""
        async with aclosing(begin()) as stream:
            async for event in stream:
                yield event

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        found: T = await self.send(Request("get", resource, name, namespace))
        return found

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """As the port says."""
        options = {"labels": labels, "fields": fields, "resource_version": resource_version}
        found: Listing[T] = await self.send(Request("list", resource, "", namespace, None, options))
        return found

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """As the port says."""
        return self._hear(
            resource,
            lambda: self._inner.watch(
                resource, namespace, resource_version=resource_version, labels=labels, fields=fields
            ),
        )

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        made: T = await self.send(Request("create", resource, "", namespace, body))
        return made

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says."""
        patched: T = await self._patch(Request("patch", resource, name, namespace, patch), subresource)
        return patched

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says."""
        patched: T = await self._patch(Request("patch", resource, name, namespace, operations), subresource)
        return patched

    async def _patch(self, request: Request, subresource: str) -> Any:
        return await self.send(request._replace(options={"subresource": subresource}))

    async def delete(self, resource: Resource[T], name: str, namespace: str = "", **options: Any) -> None:
        """As the port says."""
        await self.send(Request("delete", resource, name, namespace, None, options))


class _Rule:
    """What happens at requests of these verbs, first to the one after `skip` others, and then `times` in all."""

    def __init__(
        self,
        happens: Callable[[Callable[[], Any]], Awaitable[object]],
        verbs: Collection[Verb],
        resource: Resource[Any] | None,
        where: Callable[[Request], bool],
        skip: int = 0,
        times: int | None = None,
    ) -> None:
        self.happens = happens
        self._verbs = verbs
        self._resource = resource
        self._where = where
        self._skip = skip
        self._left = times

    def takes(self, request: Request) -> bool:
        """Whether it happens at this request; a request counts for it once."""
        if request.verb not in self._verbs or (
            self._resource is not None and self._resource.full_name != request.resource.full_name
        ):
            return False
        if not self._where(request):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._left is not None:
            self._left -= 1
        return self._left is None or self._left >= 0


class ScriptedClient(Interceptor):
    """A client to which happens what a test scripts. `requests` are all that it was asked for, but watches.

    `where` chooses among requests of some verbs and a resource. What happens before a request may raise the client's
    answer.
    """

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []
        self.lost: list[Callable[[], Awaitable[Any]]] = []
        self._before: list[_Rule] = []
        self._after: list[_Rule] = []

    def before(
        self,
        deed: Deed,
        *verbs: Verb,
        of: Resource[Any] | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """`deed` happens right before a request, after `skip` others; `times` None is always."""
        self._before.append(_Rule(lambda _send: deed(), verbs, of, _any, skip, times))

    def after(
        self,
        deed: Deed,
        *verbs: Verb,
        of: Resource[Any],
        where: Callable[[Request], bool] = _any,
    ) -> None:
        """`deed` happens once, right after a request, before the client gets its answer."""
        self._after.append(_Rule(lambda _send: deed(), verbs, of, where, times=1))

    def fail(
        self,
        error: KubeError,
        *verbs: Verb,
        of: Resource[Any],
        where: Callable[[Request], bool] = _any,
    ) -> None:
        """Requests are answered with `error`."""

        async def refuse(_send: Callable[[], Any]) -> None:
            raise error

        self._before.append(_Rule(refuse, verbs, of, where))

    def lose(self, *verbs: Verb, of: Resource[Any], name: str) -> None:
        """Requests get no answer. They are in `lost`, and have their effect when they are called."""

        async def lose(send: Callable[[], Any]) -> None:
            self.lost.append(send)
            raise TransportError("no answer")

        self._before.append(_Rule(lose, verbs, of, lambda request: request.name == name))

    def calm(self) -> None:
        """Nothing happens any more."""
        self._before.clear()
        self._after.clear()

    def count(self, *verbs: Verb, of: Resource[Any] | None = None) -> int:
        """How many requests there were."""
        return sum(
            item.verb in verbs and (of is None or of.full_name == item.resource.full_name)
            for item in self.requests
        )

    async def send(self, request: Request) -> Any:
        send = partial(super().send, request)
        self.requests.append(request)
        for rule in [rule for rule in self._before if rule.takes(request)]:
            await rule.happens(send)
        answer = await send()
        for rule in [rule for rule in self._after if rule.takes(request)]:
            await rule.happens(send)
        return answer
