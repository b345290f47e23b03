"""A cluster with the webhooks of LANs, which are asked as the API server asks them, with objects that are there."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from lanloom.api.admission import UserInfo, Verdict
from lanloom.api.core import PODS
from lanloom.api.lan import LAN, LANS
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.resource import Resource
from lanloom.features.lan.admission import LanAdmission
from lanloom.features.lan.reader import lan_informers
from lanloom.features.lan.rules.nads import body_of, wanted_nads
from lanloom.features.lan.rules.permits import Permits
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.patches import merge
from lanloom.nads.users import NadUsers, user_informers
from lanloom.refusals import Denied
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.lan.manager.scene import PLACE, SPEC, first_storage
from tests.harness.admission import request
from tests.harness.virtual import run

Raw = dict[str, Any]
ADMIN, MANAGER = "kubernetes-admin", "a manager"


class Reviews:
    """A cluster and its webhooks. `follow` starts the watches; before, the stores know nothing."""

    def __init__(self, engine: Engine) -> None:
        self.client = LocalClient(engine)
        now = asyncio.get_running_loop().time
        self._shared = Informers(self.client, Random(1))
        users = NadUsers(self.client, user_informers(self._shared), now)

        self.informers = lan_informers(self._shared)

        async def is_manager(user: UserInfo) -> bool:
            return user.username == MANAGER

        self.admission = LanAdmission(
            self.client,
            self.informers,
            users,
            is_manager,
            lambda pod: "",
            InFlight(),
            now=now,
            uplinks=self._uplinks,
            permits=Permits(lans=3, spokes=20),
        )
        self.closed: set[tuple[str, str, int]] = set()
        self.tasks: list[asyncio.Task[None]] = []

    async def _uplinks(self, namespace: str, cluster_network: str, vlan: int) -> None:
        """All namespaces may join LANs to any VLAN but those that are `closed`."""
        if (namespace, cluster_network, vlan) in self.closed:
            raise Denied("closed")

    async def follow(self) -> None:
        """Lets the stores catch up."""
        self.tasks += [asyncio.create_task(informer.run()) for informer in self._shared.all()]
        await all_synced(self._shared.all())
        await asyncio.sleep(1)

    async def add_lan(self, name: str = "blue", **spec: Any) -> LAN:
        """A LAN that is there."""
        return await self.client.create(LANS, {"metadata": {"name": name}, "spec": SPEC | spec}, PLACE)

    async def add_nad(self, lan: LAN, **marks: str) -> Raw:
        """The NAD of the first spoke for pods, as it is on the server."""
        body = merge(body_of(lan, tuple(wanted_nads(lan))[1]), {"metadata": {"annotations": marks}})
        return raw(await self.client.create(NADS, body, PLACE))

    async def add_pod(self) -> None:
        """A pod at that NAD."""
        meta = {"name": "web", "annotations": {MULTUS_NETWORKS: f"{PLACE}/k8slan-veth-a"}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        await self.client.create(PODS, body, "vms")

    async def ask(
        self,
        resource: Resource[Any],
        new: Raw | None,
        old: Raw | None = None,
        *,
        user: str = ADMIN,
        sub: str = "",
        dry: bool = False,
    ) -> Verdict:
        """A review of a validating webhook."""
        return await self.admission.validate(
            request(resource, new, old, user=user, status=bool(sub), dry_run=dry)
        )


def raw(item: Any) -> Raw:
    """An object as it is on the wire."""
    found: Raw = msgspec.to_builtins(item)
    return found


def review_lan(name: str = "blue", *, metadata: Raw | None = None, **spec: Any) -> Raw:
    """A LAN as its author writes it."""
    return {"metadata": {"name": name, "namespace": PLACE, **(metadata or {})}, "spec": SPEC | spec}


def reviewed(test: Callable[[Reviews], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster with webhooks."""

    def run_it() -> None:
        storage = copy.deepcopy(first_storage())

        async def main() -> None:
            engine = Engine(storage, now=asyncio.get_running_loop().time, rng=Random(1))
            await engine.start()
            each = Reviews(engine)
            try:
                await test(each)
            finally:
                for task in each.tasks:
                    task.cancel()
                await asyncio.gather(*each.tasks, return_exceptions=True)
                await engine.close()

        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it
