"""A cluster in which others have addresses on the wires of networks: nodes, routers, agents' reports and LANs."""

import asyncio
import json
from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import HOST_NETWORK_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.names import PREFIX
from lanloom.api.resource import Resource
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.reader import ipam_informers
from lanloom.features.ipam.wirereader import WireReader, wire_informers
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from tests.features.ipam.cluster import PLACE, IpamCluster

Raw = dict[str, Any]

SUBNET: Raw = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.13"}]}
"""A subnet with a pool of four addresses."""


class WireCluster(IpamCluster):
    """Networks and NICs, and what else is on their wires."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (
        NETWORKS,
        NICS,
        NADS,
        CLUSTER_NETWORK_NODES,
        LANS,
        HOST_NETWORK_CONFIGS,
    )

    async def _manage(self, name: str, client: Client) -> None:
        rng = Random(name)
        informers = Informers(client, rng)
        ipam = ipam_informers(informers)
        wires = WireReader(wire_informers(informers))
        recorder = self.recorder("lanloom-manager", name, client, rng)
        manager = IpamManager(client, ipam, recorder, identity=name, now=self.now, rng=rng, wires=wires)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            group.create_task(manager.run())

    async def nad(
        self, name: str, network: str = "net", *, vlan: int = 150, stated: Mapping[str, str] | None = None
    ) -> None:
        """Create a NAD on the bridge of `cluster-1` whose pods get addresses of a network; none if that is empty."""
        config: Raw = {"type": "bridge", "bridge": "cluster-1-br", "vlan": vlan}
        config |= {"ipam": {"type": "lanloom-ipam", "network": network}} if network else {}
        await self.keep(NADS, nad_body(name, config, stated or {}))

    async def node(self, name: str, address: str) -> None:
        """A node joins, with an InternalIP."""
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        await self.keep(NODES, {"metadata": {"name": name}, "status": status})


def nad_body(name: str, config: Raw, stated: Mapping[str, str]) -> Raw:
    """A NAD with this configuration and these annotations."""
    config = {"cniVersion": "1.0.0", "name": name, **config}
    meta = {"name": name, "namespace": PLACE, "annotations": dict(stated)}
    return {"metadata": meta, "spec": {"config": json.dumps(config)}}


def node_addresses(mode: str, **more: str) -> dict[str, str]:
    """The annotations of a NAD by which nodes get addresses, by their names with underscores for dashes."""
    stated = {"l3_connectivity": "true", "mode": mode} | more
    return {PREFIX + key.replace("_", "-"): value for key, value in stated.items()}
