"""What is on the wires of networks that are about to be created, read once from the API server.

The manager writes it into the status of a network that is there (`wirereader`). An import asks before it writes any.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, HostNetworkConfig
from lanloom.api.ipam import Network, OtherUse
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.model import Network as Model
from lanloom.features.ipam.rules.others import Held, View, Wire, sharing
from lanloom.features.ipam.state import network_of
from lanloom.features.ipam.wirereader import Wires, read_wires
from lanloom.features.ipam.wires import (
    read_held,
    read_host_network,
    read_management,
    read_node,
    wire_of_host_network,
)
from lanloom.kube.errors import Forbidden
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.refusals import Malformed

T = TypeVar("T", bound=Object)


class WireContext(Struct, frozen=True):
    """The wires with the networks on them, the `nodes`' own addresses, and who else has addresses on wires."""

    wires: Wires
    nodes: tuple[Held, ...] = ()
    reports: tuple[ClusterNetworkNode, ...] = ()
    host_networks: tuple[HostNetworkConfig, ...] = ()

    def joined_by(self, networks: Iterable[Network]) -> "WireContext":
        """Return the same as it is with more networks."""
        return replace(self, wires=self.wires.joined_by(networks))

    def described(self, network: Network) -> Network:
        """Return a network with the status that says who else has its addresses. Raises Malformed."""
        on = sorted(self.wires.wires_of_network(network))
        view = View(held=tuple(self._held(on)), nodes=self.nodes, peers=tuple(self._peers(on)))
        found = sharing(network_of(network), view)
        in_use = tuple(
            OtherUse(ip=format_address(address), by=holder.what, of=holder.reference)
            for address, holder in found.held.items()
        )
        return replace(network, status=replace(network.status, in_use=in_use, shared_with=found.peers))

    def _held(self, on: Iterable[Wire]) -> Iterator[Held]:
        for wire in on:
            yield from map(read_held, self.wires.nads_on(wire))
            yield from (self.wires.reported(report, wire) for report in self.reports)
            yield from (
                read_host_network(item) for item in self.host_networks if wire_of_host_network(item) == wire
            )

    def _peers(self, on: Iterable[Wire]) -> Iterator[Model]:
        for network in {
            name: item for wire in on for name, item in self.wires.networks_on(wire).items()
        }.values():
            with suppress(Malformed):
                yield network_of(network)


async def read_wire_context(client: Reader) -> WireContext:
    """Return it as the API server has it now. Raises KubeError. What the user may not read is left to the webhooks."""
    nodes, reports = await _readable(client, NODES), await _readable(client, CLUSTER_NETWORK_NODES)
    return WireContext(
        await read_wires(client),
        (*map(read_management, reports), *map(read_node, nodes)),
        reports,
        await _readable(client, HOST_NETWORK_CONFIGS),
    )


async def _readable(client: Reader, resource: Resource[T]) -> tuple[T, ...]:
    with suppress(Forbidden):
        return await list_or_empty(client, resource)
    return ()
