"""How managers of a simulated cluster reach the API server: late now and then, and as tests that harm them want.

A protection is taken away where something is asked of the API server, so that manager and webhooks themselves are as
they are.
"""

from typing import Any

from msgspec import Struct

from lanloom.api.dummy import ADMITTED, DRAINING
from lanloom.api.multus import NADS
from lanloom.kube.ports import Client, Listing
from lanloom.nads.users import UserInformers
from tests.harness.interceptor import Interceptor, Request


class Protections(Struct, frozen=True, kw_only=True):
    """What keeps a network from being taken away from under a user; tests take one away and see what comes of it.

    `restarts` are the notes on a NAD that drains. The mark itself is none: it only keeps new users from coming.
    """

    notes: bool = True
    fresh: bool = True
    version: bool = True
    restarts: bool = True


ALL_OF_THEM = Protections()


class BlindClient(Interceptor):
    """Lists those who use networks as the watches have brought them, and not as they are."""

    def __init__(self, inner: Client, watched: UserInformers) -> None:
        super().__init__(inner)
        self._stores = {id(item.resource): item.store for item in watched.all()}

    async def send(self, request: Request) -> Any:
        store = self._stores.get(id(request.resource)) if request.verb == "list" else None
        return Listing(store.items(), "1") if store is not None else await super().send(request)


class CarelessClient(Interceptor):
    """Deletes whatever has become of an object meanwhile."""

    async def send(self, request: Request) -> Any:
        if request.verb == "delete":
            request = request._replace(options={**request.options, "resource_version": ""})
        return await super().send(request)


class ForgetfulClient(Interceptor):
    """The webhooks' client; it writes no notes, or none on a NAD that drains, where that is taken away."""

    def __init__(self, inner: Client, protections: Protections) -> None:
        super().__init__(inner)
        self._protections = protections

    async def send(self, request: Request) -> Any:
        if not request.merges or request.resource is not NADS:
            return await super().send(request)
        meta = request.body["metadata"]
        if not self._protections.notes:
            request = request._replace(body={"metadata": {**meta, "annotations": {ADMITTED: None}}})
        if not self._protections.restarts:
            nad = await super().get(NADS, request.name, request.namespace)
            if DRAINING in nad.metadata.annotations:
                request = request._replace(body={"metadata": {"resourceVersion": meta["resourceVersion"]}})
        return await super().send(request)
