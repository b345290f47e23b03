"""The cluster as one admission request sees it: what the stores say, what is in flight, and what had to be read again.

The stores lag behind the API server by the length of a watch. What they allow may be allowed, if what was let through
just before counts, too. Before a request is refused, what the rule asked about is read again, and nothing else: an
object that stands against the request by its name, and a list only where an object may be missing. What does not depend
on the length of a watch, such as nodes, is not read at all.

What the webhooks allowed counts for the next request before a watch brings what it made (`reserve`).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, new_of, old_of
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
)
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    nads_named_by,
    networks_of,
)
from lanloom.api.meta import Key, Object, is_label_value
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import CLUSTER_NETWORK_LABEL
from lanloom.api.resource import Resource
from lanloom.features.vlan.informers import VlanInformers
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.report.cluster import usable_nodes
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Client, Listing

T = TypeVar("T", bound=Object)

_SINGLE_MAX = 16
"""So many objects are read one by one; of more a list is read."""


class LiveReader(ClusterReader):
    """The cluster for one request. Apply a rule, `read` what it looked up, apply it again."""

    def __init__(self, client: Client, stored: ClusterReader, in_flight: InFlight) -> None:
        super().__init__(stored._stores, stored._facts)
        self._client = client
        self._in_flight = in_flight
        self._found: dict[tuple[str, Key], Object | None] = {}
        self._lists: dict[tuple[str, str], Listing[Any]] = {}
        self._requested_objects: dict[str, tuple[Resource[Any], set[Key]]] = {}
        self._requested_lists: dict[tuple[str, str], Resource[Any]] = {}

    @property
    def is_read(self) -> bool:
        """Whether everything that was asked about, and may be otherwise by now, has been read."""
        return not (self._requested_objects or self._requested_lists)

    async def views(self) -> "AsyncGenerator[LiveReader, None]":
        """Yield this reader, again after each read of what a rule asked about; for `recheck`. Raises KubeError."""
        yield self
        while not self.is_read:
            await self.read()
            yield self

    async def read(self) -> None:
        """Read what was asked about since the last time. Raises KubeError."""
        objects, self._requested_objects = self._requested_objects, {}
        lists, self._requested_lists = self._requested_lists, {}
        await asyncio.gather(
            *(self._read_objects(resource, keys) for resource, keys in objects.values()),
            *(self._read_list(resource, labels) for (_, labels), resource in lists.items()),
        )

    async def _read_objects(self, resource: Resource[Any], keys: set[Key]) -> None:
        if len(keys) > _SINGLE_MAX:
            listed = {item.metadata.key: item for item in await list_or_empty(self._client, resource)}
            self._found |= {(resource.full_name, key): listed.get(key) for key in keys}
        else:
            found = await asyncio.gather(*(get_or_none(self._client, resource, key) for key in keys))
            self._found |= {(resource.full_name, key): item for key, item in zip(keys, found, strict=True)}

    async def _read_list(self, resource: Resource[Any], labels: str) -> None:
        self._lists[resource.full_name, labels] = await self._client.list(resource, labels=labels)

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """Return one cluster network. One whose deletion is in flight is being deleted."""
        key = Key("", name)
        leaving = self._in_flight.get(CLUSTER_NETWORKS, key)
        if leaving is not None:
            return leaving
        stored = super().cluster_network(name)
        if not is_label_value(name):  # a user's word, and no name of anything
            return stored
        return self._object(CLUSTER_NETWORKS, key, stored)

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """Return the VlanConfigs of a cluster network."""
        stored = tuple(super().configs_of(cluster_network))
        listed = self._listing(VLAN_CONFIGS)
        if listed is not None:
            newer = [item for item in stored if item.metadata.version > _number(listed.resource_version)]
            found = {item.metadata.key: item for item in (*listed.items, *newer)}
            stored = tuple(item for item in found.values() if item.spec.cluster_network == cluster_network)
        coming = self._in_flight.of(VLAN_CONFIGS)
        return (*stored, *(item for item in coming if item.spec.cluster_network == cluster_network))

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network."""
        return self._nads(cluster_network, super().nads_of(cluster_network))

    def nads_on(self, cluster_network: str, vid: int) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network that may have node addresses on a VLAN."""
        return self._nads(cluster_network, super().nads_on(cluster_network, vid))

    def exclusive_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network that have their VLAN for themselves."""
        return self._nads(cluster_network, super().exclusive_of(cluster_network))

    def is_usable(self, cluster_network: str) -> bool:
        """Return whether a node has a working uplink for a cluster network."""
        if super().is_usable(cluster_network):
            return True
        if not is_label_value(cluster_network):
            return False
        listed = self._listing(CLUSTER_NETWORK_NODES, f"{CLUSTER_NETWORK_LABEL}={cluster_network}")
        return listed is not None and bool(usable_nodes(listed.items))

    def host_networks_of(self, cluster_network: str) -> Iterable[HostNetworkConfig]:
        """Return Harvester's HostNetworkConfigs of a cluster network."""
        stored = self._confirmed(HOST_NETWORK_CONFIGS, super().host_networks_of(cluster_network))
        every = (*stored, *self._in_flight.of(HOST_NETWORK_CONFIGS))
        return tuple(item for item in every if item.spec.cluster_network == cluster_network)

    def vms_on(self, nad: Key) -> Iterable[VirtualMachineInstance]:
        """Return the VMs that use a NAD."""
        found = self._confirmed(VIRTUAL_MACHINE_INSTANCES, super().vms_on(nad))
        return tuple(item for item in found if nad in networks_of(item))

    def machines_naming(self, nad: Key) -> Iterable[VirtualMachine]:
        """Return the VirtualMachines that name a NAD."""
        found = self._confirmed(VIRTUAL_MACHINES, super().machines_naming(nad))
        return tuple(item for item in found if nad in nads_named_by(item))

    def _object(self, resource: Resource[T], key: Key, stored: T | None) -> T | None:
        """Return an object as it was read, or else as the store has it, with a note to read it."""
        question = resource.full_name, key
        if question in self._found:
            found = cast("T | None", self._found[question])
            if found is None or stored is None:
                return found
            return max(found, stored, key=lambda item: item.metadata.version)  # a watch may have been faster
        self._requested_objects.setdefault(resource.full_name, (resource, set()))[1].add(key)
        return stored

    def _listing(self, resource: Resource[T], labels: str = "") -> Listing[T] | None:
        """Return a list that was read, or None, with a note to read it."""
        found = self._lists.get((resource.full_name, labels))
        if found is None:
            self._requested_lists[resource.full_name, labels] = resource
        return found

    def _confirmed(self, resource: Resource[T], stored: Iterable[T]) -> tuple[T, ...]:
        """Return those of the store's objects that are still there, as they are now."""
        found = (self._object(resource, item.metadata.key, item) for item in stored)
        return tuple(item for item in found if item is not None)

    def _nads(
        self, cluster_network: str, stored: Iterable[NetworkAttachmentDefinition]
    ) -> tuple[NetworkAttachmentDefinition, ...]:
        found = self._confirmed(NADS, stored)
        mine = (item for item in found if cluster_network_of(item) == cluster_network)
        coming = (item for item in self._in_flight.of(NADS) if cluster_network_of(item) == cluster_network)
        return (*mine, *coming)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


_KINDS: dict[str, Resource[Any]] = {kind.plural: kind for kind in (NADS, VLAN_CONFIGS, HOST_NETWORK_CONFIGS)}


def follow(in_flight: InFlight, informers: VlanInformers) -> InFlight:
    """Return the reservations, of which those are forgotten that these informers bring."""
    in_flight.follow(CLUSTER_NETWORKS, informers.cluster_networks)
    in_flight.follow(VLAN_CONFIGS, informers.configs)
    in_flight.follow(NADS, informers.nads)
    in_flight.follow(HOST_NETWORK_CONFIGS, informers.host_networks)
    return in_flight


def reserve(request: AdmissionRequest, in_flight: InFlight) -> None:
    """Remember an allowed request, as far as another one may be refused for it.

    Of deletions only that of a ClusterNetwork counts: anything else that is to go stands against others until it is
    gone.
    """
    kind = _KINDS.get(request.resource.resource)
    if kind is not None:
        if (new := new_of(kind, request)) is not None:
            in_flight.add(kind, request, new, old_of(kind, request))
    elif request.resource.resource == CLUSTER_NETWORKS.plural and request.object is None:
        network = old_of(CLUSTER_NETWORKS, request)
        if network is not None:
            leaving = replace(network.metadata, deletion_timestamp="now")
            in_flight.add(CLUSTER_NETWORKS, request, replace(network, metadata=leaving), network)
