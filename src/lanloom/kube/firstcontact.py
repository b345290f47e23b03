"""Explain why a server has nothing for us: it lacks the kinds, or is too old; or the user may not see them.

What an API server says then (`404 page not found`) names neither the cause nor the remedy.
"""

from typing import Any, Protocol

from lanloom.api.core import CRDS
from lanloom.api.resource import Resource
from lanloom.kube.errors import ApiError, Forbidden, KubeError, NotFound

OLDEST = (1, 20)
"""The oldest Kubernetes that Lanloom works with."""

INSTALL = "run `lanloom crds --apply`, then `lanloom install | kubectl apply -f -`"

_PROJECTS = {"kubevirt.io": "KubeVirt"}
"""Projects whose kinds Lanloom does not install, by the end of their groups."""


class Contact(Protocol):
    """What is needed of a client."""

    @property
    def server(self) -> str:
        """The server's address."""
        ...

    async def request(self, method: str, path: str) -> dict[str, Any]:
        """Send a request without types."""
        ...

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """Read one object."""
        ...


async def explain(client: Contact, error: KubeError, *, narrower: str = "") -> str:
    """Return the text of an error, with cause and remedy where the server's own has none.

    `narrower` says how to name a namespace instead of all, where that is possible.
    """
    match error:
        case NotFound() if error.asked and not error.names_object:
            return await _explain_unserved(client, error)
        case Forbidden() if " cannot " in error.message and error.message.find("User ") >= 0:
            return f"{error}; ask an administrator of the cluster for that right{_narrower(error, narrower)}"
    return str(error)


def _narrower(error: ApiError, how: str) -> str:
    """Return what the user may do without the right, which is of no use for kinds that are in no namespace."""
    is_whole = error.namespaced and error.message.endswith("at the cluster scope")
    return f", or {how}" if how and is_whole else ""


async def _explain_unserved(client: Contact, error: NotFound) -> str:
    """Say why a kind is not served: the server is none, too old, starting, or without Lanloom."""
    version = await _version(client)
    if version == ():
        return f"{client.server} is no API server of Kubernetes; check the server of the kubeconfig"
    if version and version < OLDEST:
        found, oldest = (".".join(map(str, item)) for item in (version, OLDEST))
        return f"the API server {client.server} is Kubernetes {found}; Lanloom needs {oldest} or later"
    text = f"the API server {client.server} does not serve {error.asked}"
    if await _is_defined(client, error.asked):
        return f"{text} yet, although the kind is defined; try again in a moment"
    maker = next((name for group, name in _PROJECTS.items() if error.asked.endswith(group)), "")
    return f"{text}; install {maker}" if maker else f"{text}; to install Lanloom, {INSTALL}"


async def _version(client: Contact) -> tuple[int, ...] | None:
    """Return the server's version; None if it keeps it to itself, and nothing if it has none."""
    try:
        found = await client.request("GET", "/version")
        return int(found["major"]), int(str(found["minor"]).rstrip("+"))
    except ApiError as error:
        return () if isinstance(error, NotFound) else None
    except (KubeError, KeyError, ValueError):
        return ()


async def _is_defined(client: Contact, name: str) -> bool:
    try:
        await client.get(CRDS, name)
    except KubeError:
        return False
    return True
