"""Reads what is known of a DummyClusterNetwork: from the stores, and live where that is not enough."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from lanloom.api.core import Node
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL, DummyClusterNetwork
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.manager.informers import BY_UID, DummyInformers, nads_of
from lanloom.features.dummy.rules.model import (
    Settings,
    UserView,
    daemon_set_name,
    daemon_set_places,
    is_foreign,
    resource_name,
)
from lanloom.features.dummy.rules.objects import implied_cluster_network
from lanloom.features.dummy.rules.observed import (
    Failure,
    Live,
    LiveRead,
    Made,
    Observed,
)
from lanloom.features.dummy.rules.subnet import Ranges, ranges
from lanloom.features.dummy.users import shared_live_users
from lanloom.kube.lookup import read_service_ranges
from lanloom.kube.ports import Client


async def read_ranges(client: Client, nodes: Iterable[Node], settings: Settings) -> Ranges:
    """What pods, services and nodes have. Raises KubeError; kinds and services that are not there tell nothing."""
    return ranges(
        nodes,
        services=await read_service_ranges(client),
        pod_cidrs=settings.pod_cidrs,
        service_cidrs=settings.service_cidrs,
    )


T = TypeVar("T", bound=Object)


class ClusterReader:
    """The stores, and the API server behind them."""

    def __init__(
        self,
        client: Client,
        informers: DummyInformers,
        users: UserView,
        settings: Callable[[], Settings],
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._live_users = shared_live_users(client)
        self._informers = informers
        self._users = users
        self._settings = settings
        self._now = now

    def of(self, dcn: DummyClusterNetwork, failure: Failure | None = None) -> Observed:
        """All that the watches have brought of a network."""
        stores, settings = self._informers, self._settings()
        meta, spec = dcn.metadata, dcn.spec
        implied = implied_cluster_network(spec.bridge_name)
        places = self._places(dcn)
        made = self._made(meta.uid, places)
        title = Key(settings.namespace, daemon_set_name(meta.name, meta.uid))
        daemon_set = stores.daemon_sets.store.get(title)
        return Observed(
            dcn=dcn,
            now=self._now(),
            settings=settings,
            users=self._users,
            others=tuple(item for item in stores.dcns.store.items() if item.metadata.uid != meta.uid),
            nad=stores.nads.store.get(spec.nad),
            daemon_set=daemon_set if daemon_set in made.daemon_sets else None,
            network=stores.networks.store.get(Key("", resource_name(meta.name, meta.uid))),
            cluster_network=stores.cluster_networks.store.get(Key("", implied)) if implied else None,
            configs=tuple(
                item
                for item in stores.configs.store.items()
                if implied and item.spec.cluster_network == implied
            ),
            foreign=frozenset(key for key in nads_of(dcn) if self._is_foreign(key, dcn)),
            made=made,
            nodes=stores.nodes.store.items(),
            ranges=self._ranges() if spec.subnet else Ranges(),
            pods=tuple(
                pod for pod in stores.pods.store.by(BY_UID, meta.uid) if pod.metadata.namespace in places
            ),
            failure=failure,
        )

    def _ranges(self) -> Ranges:
        settings = self._settings()
        return ranges(
            self._informers.nodes.store.items(),
            pod_cidrs=settings.pod_cidrs,
            service_cidrs=settings.service_cidrs,
        )

    def orphaned(self, uid: str) -> Made:
        """What the watches have brought of what was made for the network of that uid, which nobody knows any more."""
        return self._made(uid, daemon_set_places(self._settings(), ()))

    def _made(self, uid: str, places: frozenset[str]) -> Made:
        stores = self._informers
        return Made(
            nads=stores.nads.store.by(BY_UID, uid),
            daemon_sets=_in(places, stores.daemon_sets.store.by(BY_UID, uid)),
            networks=stores.networks.store.by(BY_UID, uid),
            cluster_networks=stores.cluster_networks.store.by(BY_UID, uid),
        )

    async def live_read(self, dcn: DummyClusterNetwork, what: LiveRead) -> Live:
        """What the API server says now. Who uses networks is asked after the NADs were read. Raises KubeError."""
        made = await self._made_anew(dcn.metadata.uid, self._places(dcn))
        return Live(made=made, users=await self._live_users.get() if what == "users" else None)

    async def ranges(self, seen: Observed) -> Ranges:
        """What addresses the cluster uses, services included, which nothing here watches. Raises KubeError."""
        return await read_ranges(self._client, seen.nodes, seen.settings)

    async def exists(self, uid: str) -> bool:
        """Whether the API server has a DummyClusterNetwork of that uid now. Raises KubeError."""
        every = await self._client.list(DUMMY_CLUSTER_NETWORKS)
        return any(item.metadata.uid == uid for item in every.items)

    async def _made_anew(self, uid: str, places: frozenset[str]) -> Made:
        nads, daemon_sets, networks, cluster_networks = await asyncio.gather(
            self._labelled(NADS, uid),
            self._labelled(DAEMON_SETS, uid),
            self._labelled(NETWORKS, uid),
            self._labelled(CLUSTER_NETWORKS, uid),
        )
        return Made(
            nads=nads,
            daemon_sets=_in(places, daemon_sets),
            networks=networks,
            cluster_networks=cluster_networks,
        )

    async def _labelled(self, resource: Resource[T], uid: str) -> tuple[T, ...]:
        return (await self._client.list(resource, labels=f"{UID_LABEL}={uid}")).items

    def _places(self, dcn: DummyClusterNetwork) -> frozenset[str]:
        return daemon_set_places(self._settings(), dcn.status.resources)

    def _is_foreign(self, key: Key, dcn: DummyClusterNetwork) -> bool:
        nad = self._informers.nads.store.get(key)
        return nad is not None and is_foreign(nad.metadata, dcn)


def _in(places: frozenset[str], items: tuple[DaemonSet, ...]) -> tuple[DaemonSet, ...]:
    return tuple(item for item in items if item.metadata.namespace in places)
