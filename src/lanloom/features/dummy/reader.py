"""The cluster as the manager and its webhooks observe it: shared informers, and live reads where those do not suffice.

Stores lag behind the API server by the length of a watch. What they allow may be allowed; before a request is refused
or an object is deleted, what the decision rests on is read live.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from lanloom.api.core import EVENTS, NODES, PODS, Event, Node, Pod
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL, DummyClusterNetwork
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    VlanConfig,
)
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LAN, LANS
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import links_of
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet, strip_pod
from lanloom.features.dummy.rules.admit import leads_to
from lanloom.features.dummy.rules.daemonset import denial_text
from lanloom.features.dummy.rules.model import (
    Settings,
    daemon_set_name,
    daemon_set_places,
    is_foreign,
    owner_of,
    resource_name,
)
from lanloom.features.dummy.rules.objects import implied_cluster_network, lan_key
from lanloom.features.dummy.rules.observed import (
    Failure,
    Live,
    LiveRead,
    Made,
    Observed,
)
from lanloom.features.dummy.rules.subnet import Ranges, ranges
from lanloom.kube.denials import FAILED_CREATE, denials
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.lookup import list_or_empty, read_service_ranges
from lanloom.kube.ports import Client
from lanloom.nads.references import NadUse
from lanloom.nads.users import shared_live_users

BY_UID = "dummy-uid"
"""DummyClusterNetworks by their own uid; everything else by that of the DummyClusterNetwork that it was made for."""

BY_NAD, BY_BRIDGE, BY_NETWORK = "dummy-nad", "dummy-bridge", "dummy-network"
"""DummyClusterNetworks by `namespace/name` of their NADs, those of their specs and their statuses, by bridge, and by
the name that the Network of their addresses has."""


BY_CONTROLLER = "dummy-controller"
"""Events by the name of the DaemonSet that they are about."""


class DummyInformers(InformerView, frozen=True):
    """What the manager and its webhooks watch.

    Of DaemonSets only those that were made for networks, of Events (`failures`) only that their pods can't be created.
    """

    dcns: Informer[DummyClusterNetwork]
    daemon_sets: Informer[DaemonSet]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    pods: Informer[Pod]
    networks: Informer[Network]
    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    lans: Informer[LAN]
    failures: Informer[Event]


def dummy_informers(informers: Informers) -> DummyInformers:
    """Return the informers, with their indexes."""
    made_for = {BY_UID: _owner}
    return DummyInformers(
        dcns=informers.get(
            DUMMY_CLUSTER_NETWORKS,
            indexes={
                BY_UID: lambda item: (item.metadata.uid,),
                BY_NAD: lambda item: map(str, nads_of(item)),
                BY_BRIDGE: lambda item: (item.spec.bridge_name,),
                BY_NETWORK: lambda item: (resource_name(item.metadata.name, item.metadata.uid),),
            },
        ),
        daemon_sets=informers.get(
            DAEMON_SETS, labels=UID_LABEL, title=f"{DAEMON_SETS.full_name}/isolated", indexes=made_for
        ),
        nads=informers.get(NADS, indexes=made_for),
        nodes=informers.get(NODES),
        pods=informers.get(PODS, indexes=made_for, transform=strip_pod),
        networks=informers.get(NETWORKS, indexes=made_for),
        cluster_networks=informers.get(CLUSTER_NETWORKS, indexes=made_for),
        configs=informers.get(VLAN_CONFIGS),
        lans=informers.get(LANS, indexes=made_for, optional=True),
        failures=informers.get(
            EVENTS,
            namespace=BRIDGES_NAMESPACE,
            fields=FAILED_CREATE,
            title=f"{EVENTS.full_name}/refused",
            indexes={BY_CONTROLLER: lambda item: (item.involved_object.name,)},
        ),
    )


def nads_of(dcn: DummyClusterNetwork) -> frozenset[Key]:
    """Return the NADs that a DummyClusterNetwork is to have or has had, even if its spec is invalid."""
    recorded = {Key(item.namespace, item.name) for item in dcn.status.resources if item.kind == NADS.kind}
    return frozenset({dcn.spec.nad} | recorded)


def _owner(item: Object) -> Iterator[str]:
    if uid := owner_of(item):
        yield uid


async def read_ranges(client: Client, nodes: Iterable[Node], settings: Settings) -> Ranges:
    """Read the addresses of pods, services and nodes. Raises KubeError; absent kinds and services add none."""
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
        users: NadUse,
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
        """Return everything that the watches observed of a network."""
        stores, settings = self._informers, self._settings()
        meta, spec = dcn.metadata, dcn.spec
        implied = implied_cluster_network(spec.bridge_name)
        places = self._places(dcn)
        made = self._made(meta.uid, places)
        title = Key(settings.namespace, daemon_set_name(meta.name, meta.uid))
        pods = tuple(
            pod for pod in stores.pods.store.by(BY_UID, meta.uid) if pod.metadata.namespace in places
        )
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
            lan=stores.lans.store.get(lan_key(meta.name, meta.uid, settings)),
            lans=stores.lans.store.items() if spec.scope == "cluster" else (),
            configs=tuple(
                item
                for item in stores.configs.store.items()
                if implied and item.spec.cluster_network == implied
            ),
            foreign=frozenset(key for key in nads_of(dcn) if self._is_foreign(key, dcn)),
            made=made,
            nodes=stores.nodes.store.items(),
            ranges=self._ranges() if spec.subnet else Ranges(),
            pods=pods,
            denial=self._denial(title, pods),
            failure=failure,
        )

    def _denial(self, daemon_set: Key, pods: tuple[Pod, ...]) -> str:
        found = denials(self._informers.failures.store.by(BY_CONTROLLER, daemon_set.name), pods)
        denial = found.get(daemon_set.name, "")
        return denial_text(denial, daemon_set.namespace) if denial else ""

    def _ranges(self) -> Ranges:
        settings = self._settings()
        return ranges(
            self._informers.nodes.store.items(),
            pod_cidrs=settings.pod_cidrs,
            service_cidrs=settings.service_cidrs,
        )

    def orphaned(self, uid: str) -> Made:
        """Return the observed objects of a network that does not exist any more, by its uid."""
        return self._made(uid, daemon_set_places(self._settings(), ()))

    def _made(self, uid: str, places: frozenset[str]) -> Made:
        stores = self._informers
        return Made(
            nads=stores.nads.store.by(BY_UID, uid),
            daemon_sets=_in(places, stores.daemon_sets.store.by(BY_UID, uid)),
            networks=stores.networks.store.by(BY_UID, uid),
            cluster_networks=stores.cluster_networks.store.by(BY_UID, uid),
            lans=stores.lans.store.by(BY_UID, uid),
        )

    async def live_read(self, dcn: DummyClusterNetwork, what: LiveRead) -> Live:
        """Read live. Users are listed after the NADs were read. Raises KubeError."""
        made = await self._made_anew(dcn.metadata.uid, self._places(dcn))
        return Live(made=made, users=await self._live_users.get() if what == "users" else None)

    async def ranges(self, observed: Observed) -> Ranges:
        """Read the addresses that the cluster uses; no informer watches those of services. Raises KubeError."""
        return await read_ranges(self._client, observed.nodes, observed.settings)

    async def exists(self, uid: str) -> bool:
        """Return whether a DummyClusterNetwork of that uid exists now. Raises KubeError."""
        every = await self._client.list(DUMMY_CLUSTER_NETWORKS)
        return any(item.metadata.uid == uid for item in every.items)

    async def _made_anew(self, uid: str, places: frozenset[str]) -> Made:
        nads, daemon_sets, networks, cluster_networks, lans = await asyncio.gather(
            self._labelled(NADS, uid),
            self._labelled(DAEMON_SETS, uid),
            self._labelled(NETWORKS, uid),
            self._labelled(CLUSTER_NETWORKS, uid),
            list_or_empty(self._client, LANS, labels=f"{UID_LABEL}={uid}"),
        )
        return Made(
            nads=nads,
            daemon_sets=_in(places, daemon_sets),
            networks=networks,
            cluster_networks=cluster_networks,
            lans=lans,
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


class StoreReader(Struct, frozen=True):
    """The cluster as the webhooks read it from the manager's stores."""

    informers: DummyInformers
    users: NadUse
    read_settings: Callable[[], Settings]

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.read_settings()

    def networks(self) -> Iterable[DummyClusterNetwork]:
        """Return every DummyClusterNetwork."""
        return self.informers.dcns.store.items()

    def nad(self, key: Key) -> NetworkAttachmentDefinition | None:
        """Return one NAD."""
        return self.informers.nads.store.get(key)

    def nads(self) -> Iterable[NetworkAttachmentDefinition]:
        """Return every NAD."""
        return self.informers.nads.store.items()

    def limited(self, key: Key) -> Iterator[DummyClusterNetwork]:
        """Yield the networks to which a NAD leads, its own or by their bridges, and that are not for all namespaces."""
        nad, dcns = self.nad(key), self.informers.dcns.store
        links = links_of(nad) if nad is not None else ()
        found = (*dcns.by(BY_NAD, str(key)), *(item for link in links for item in dcns.by(BY_BRIDGE, link)))
        for item in {item.metadata.key: item for item in found}.values():
            if item.spec.namespaces and leads_to(key, nad, item):
                yield item

    def configs(self) -> Iterable[VlanConfig]:
        """Return every VlanConfig."""
        return self.informers.configs.store.items()

    def nodes(self) -> Iterable[Node]:
        """Return every node."""
        return self.informers.nodes.store.items()
