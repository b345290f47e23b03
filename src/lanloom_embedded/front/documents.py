"""Documents about the server itself: discovery, OpenAPI, version, health.

Documents are made from the served kinds and kept until those change.
"""

from collections.abc import Callable
from typing import Any

from lanloom.runtime.https import errors
from lanloom_embedded import discovery, openapi
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.front.exchange import Exchange, Target
from lanloom_embedded.front.rendering import (
    JSON_FORM,
    Form,
    encode,
    negotiate,
)
from lanloom_embedded.kinds import Raw

KUBERNETES_MINOR = "36"
"""The minor version of the API that clients may suppose."""

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_NOT_FOUND = "404 page not found\n"


class Documents:
    """Answers requests for addresses that are no resources."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._git_version = f"v1.{KUBERNETES_MINOR}.0+lanloom-{version}"
        self._kept: dict[tuple[str, str], bytes] = {}
        self._generation = -1

    async def serve(self, exchange: Exchange, target: Target) -> None:
        """Answer one request."""
        if exchange.method != "GET":
            raise errors.wrong_method()
        path = target.path.rstrip("/") or "/"
        if path in _HEALTH:
            await exchange.answer_text("ok")
            return
        aggregated = _aggregated_version(exchange.header(b"accept"))
        if aggregated and path in ("/api", "/apis"):
            await self._aggregated(exchange, path, aggregated)
            return
        if path == "/openapi/v2" and _accepts_protobuf(exchange):
            await self._swagger_protobuf(exchange)
            return
        form = negotiate(exchange.header(b"accept"))
        body = self._keep((path, form.encoding), lambda: self._document(path, target, exchange), form)
        if body is None:
            await self.nothing(exchange, target)
        else:
            await exchange.answer(body, form=form)

    async def nothing(self, exchange: Exchange, target: Target) -> None:
        """Report that there is nothing at this address, in one of the real server's three ways."""
        groups = {kind.group for kind in self._registry.kinds() if kind.builtin}
        path = target.path
        if path.startswith("/api/") or (path.startswith("/apis/") and target.group in groups):
            raise errors.no_such_resource()
        if path.startswith(("/apis/", "/openapi/")):
            await exchange.answer_text(_NOT_FOUND, 404)
        else:
            await exchange.answer(encode({"paths": self._paths()}, JSON_FORM), code=404)

    def _document(self, path: str, target: Target, exchange: Exchange) -> Raw | None:
        kinds = self._registry.kinds()
        match path:
            case "/":
                return {"paths": self._paths()}
            case "/version":
                return self._version_info()
            case "/api":
                return discovery.api_versions(exchange.header(b"host"))
            case "/apis":
                return discovery.group_list(kinds)
            case "/openapi/v2":
                return openapi.swagger(kinds, self._git_version)
            case "/openapi/v3":
                return openapi.index(kinds)
        if path.startswith("/openapi/v3/"):
            return self._specification(path.removeprefix("/openapi/v3/").split("/"))
        if target.version:
            return discovery.resource_list(kinds, target.group, target.version)
        return discovery.group(kinds, target.group) if target.group else None

    async def _aggregated(self, exchange: Exchange, path: str, version: str) -> None:
        made = discovery.aggregated(self._registry.kinds(), core=path == "/api", version=version)
        content_type = discovery.AGGREGATED.format(version=version).encode()
        await exchange.answer_raw(encode(made, JSON_FORM), (b"content-type", content_type))

    async def _swagger_protobuf(self, exchange: Exchange) -> None:
        self._refresh()
        key = ("/openapi/v2", openapi.PROTOBUF)
        if key not in self._kept:
            made = openapi.swagger(self._registry.kinds(), self._git_version)
            self._kept[key] = openapi.encode_swagger(made)
        await exchange.answer_raw(self._kept[key], (b"content-type", openapi.PROTOBUF.encode()))

    def _specification(self, place: list[str]) -> Raw | None:
        """One group and version: `api/v1` or `apis/GROUP/VERSION`."""
        match place:
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                return None
        return openapi.document(self._registry.kinds(), group, version, self._git_version)

    def _refresh(self) -> None:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._kept.clear()

    def _keep(self, key: tuple[str, str], make: Callable[[], Any], form: Form) -> bytes | None:
        self._refresh()
        if key not in self._kept:
            made = make()
            if made is None:
                return None
            self._kept[key] = encode(made, form)
        return self._kept[key]

    def _paths(self) -> list[str]:
        versions = {kind.api_version for kind in self._registry.kinds() if kind.group}
        groups = {version.partition("/")[0] for version in versions}
        found = {f"/apis/{each}" for each in groups | versions}
        return sorted(
            {"/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/version", *_HEALTH, *found}
        )

    def _version_info(self) -> Raw:
        return {
            "major": "1",
            "minor": KUBERNETES_MINOR,
            "emulationMajor": "1",
            "emulationMinor": KUBERNETES_MINOR,
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": str(int(KUBERNETES_MINOR) - 1),
            "gitVersion": self._git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": "linux/amd64",
        }


def _accepts_protobuf(exchange: Exchange) -> bool:
    """Return whether protobuf is among what the client accepts, and not after JSON."""
    accept = exchange.header(b"accept")
    return accept.startswith((openapi.PROTOBUF, openapi.PROTOBUF_ACCEPTED))


def _aggregated_version(accept: str) -> str:
    for clause in accept.replace(" ", "").split(","):
        if "as=APIGroupDiscoveryList" in clause:
            for version in ("v2", "v2beta1"):
                if f"v={version};" in clause + ";":
                    return version
    return ""
