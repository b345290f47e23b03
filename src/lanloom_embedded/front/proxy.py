"""Questions that are passed on to pods: `GET /api/v1/namespaces/NAMESPACE/pods/NAME:PORT/proxy/PATH`.

Narrower than the real server: only GET, only plain HTTP, and only ports that the pod names. As there, an address that
is not unicast, of the loopback or of a link is refused: a pod must not make the server ask its own machine.
"""

from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from lanloom.kube.errors import TransportError
from lanloom.runtime.https import errors
from lanloom.text import authority
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.front.exchange import PROXY, Exchange, Target
from lanloom_embedded.kinds import GroupPlural, Raw, ServedKind

PODS = GroupPlural("", "pods")

BROADCAST = IPv4Address("255.255.255.255")


class Answer(Struct, frozen=True):
    """What a pod answered."""

    code: int
    content_type: str
    body: bytes


Fetch = Callable[[str], Awaitable[Answer]]
"""Gets a URL, without the asking user's credentials. Raises TransportError."""


class PodProxy:
    """Passes requests on to pods."""

    def __init__(self, engine: Engine, get: Fetch) -> None:
        self._engine = engine
        self._get = get

    def answers(self, kind: ServedKind, target: Target) -> bool:
        """Return whether the request is for a pod itself."""
        return kind.key == PODS and target.subresource == PROXY

    async def serve(self, exchange: Exchange, kind: ServedKind, target: Target) -> None:
        """Answer one request that its user may make. Raises StatusError."""
        if exchange.method != "GET":
            raise errors.wrong_method()
        name, _, port = target.name.partition(":")
        pod = self._engine.get(kind, target.namespace, name).raw()
        try:
            answer = await self._get(
                f"http://{authority(_host(pod), _port(pod, port))}/{quote(target.below)}"
            )
        except TransportError as error:
            raise _unreachable(str(error)) from None
        content_type = (b"content-type", answer.content_type.encode("latin-1", "replace"))
        await exchange.answer_raw(answer.body, content_type, answer.code)


def _host(pod: Raw) -> str:
    """Return the pod's address. Raises BadRequest for one that no request may be sent to."""
    try:
        address = ip_address((pod.get("status") or {}).get("podIP") or "")
    except ValueError:
        raise errors.BadRequest("address not allowed") from None
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address == BROADCAST
    ):
        raise errors.BadRequest("address not allowed")
    return str(address)


def _port(pod: Raw, wanted: str) -> int:
    """Return the port that is meant: by default the first one that a container names. Raises BadRequest."""
    containers: list[Raw] = (pod.get("spec") or {}).get("containers") or []
    named: list[Any] = [port.get("containerPort") for item in containers for port in item.get("ports") or ()]
    found = [port for port in named if wanted in ("", str(port))]
    if not found:
        raise errors.BadRequest(f"no container of the pod names the port {wanted}")
    return int(found[0])


def _unreachable(why: str) -> errors.StatusError:
    text = f"error trying to reach service: {why}"
    return errors.StatusError(text, code=503, reason="ServiceUnavailable")
