"""Whatever comes to the wires of networks and leaves them, in any order: no address is given away that has a holder."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.features.ipam.rules.addresses import Address, find_addresses
from lanloom.features.ipam.rules.ledger import Exhausted
from lanloom.features.ipam.rules.others import Held, Wire, overlap
from lanloom.features.ipam.state import is_refused, ledger_of, network_of
from lanloom.features.ipam.wirereader import Wires, read_wires
from lanloom.features.ipam.wires import read_held, read_management, read_node
from lanloom.kube.conditions import find
from lanloom.kube.errors import KubeError
from tests.features.ipam.cluster import PLACE
from tests.features.ipam.manager.wirecluster import Raw, WireCluster, nad_body, node_addresses
from tests.harness.cluster import play
from tests.harness.examples import seeds

NAMES = ("net0", "net1", "net2")
SPOKE = "blue1"
BURSTS, EVENTS = 8, 5

SUBNETS = (
    {"cidr": "192.0.2.0/28", "pools": [{"range": "192.0.2.0/28"}]},
    {"cidr": "192.0.2.0/29", "gateway": "192.0.2.1", "pools": [{"range": "192.0.2.0/29"}]},
    {"cidr": "192.0.2.8/29", "external": ["192.0.2.9"], "pools": [{"range": "192.0.2.8/29"}]},
)


class Wanderers:
    """Users, nodes and agents, at random."""

    def __init__(self, cluster: WireCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._count = 0
        self.events: tuple[Callable[[], Awaitable[None]], ...] = (
            self.nad,
            self.nad,
            self.node,
            self.report,
            self.lan,
            self.network,
            self.leave,
        )

    def address(self) -> str:
        return f"192.0.2.{self._rng.randrange(1, 14)}"

    async def nad(self) -> None:
        rng = self._rng
        config: Raw = rng.choice(
            (
                {"type": "bridge", "bridge": "c-br", "vlan": rng.choice((150, 151))},
                {"type": "k8slanveth", "veth": SPOKE},
            )
        )
        network = rng.choice(("", *NAMES))
        config |= {"ipam": {"type": "lanloom-ipam", "network": network}} if network else {}
        stated: dict[str, str] = {}
        if config["type"] == "bridge":
            static = node_addresses("static", node_ip_map=json.dumps({"node1": f"{self.address()}/28"}))
            pooled = node_addresses("pool", ip_pool=rng.choice(NAMES), gateway=f"{self.address()}/28")
            leased = node_addresses("dhcp", dns=self.address())
            former = node_addresses(rng.choice(("static", "pool")), l3_connectivity="false")
            stated = rng.choice(({}, static, pooled, leased, former))
        await self._put(NADS, nad_body(f"nad{rng.randrange(4)}", config, stated), PLACE)

    async def node(self) -> None:
        name = self._rng.choice(("node1", "node2"))
        status = {"addresses": [{"type": "InternalIP", "address": self.address()}]}
        await self._put(NODES, {"metadata": {"name": name}, "status": status})

    async def report(self) -> None:
        rng = self._rng
        link = {"vlanId": 150, "name": "c.150", "mode": rng.choice(("dhcp", "static"))}
        link |= {"network": f"{PLACE}/nad{rng.randrange(4)}", "address": f"{self.address()}/28"}
        link |= {"otherAddresses": [f"{self.address()}/32"]}
        status = {"node": "node1", "clusterNetwork": "c", "interfaces": [link]}
        await self._put(CLUSTER_NETWORK_NODES, {"metadata": {"name": "c.node1"}, "status": status})

    async def lan(self) -> None:
        uplink = self._rng.choice((None, {"clusterNetwork": "c", "vlan": 150}))
        spec = {"ns": "n", "bridge": "b", "vxlan": "v", "vni": 7, "spokes": [SPOKE], "uplink": uplink}
        await self._put(LANS, {"metadata": {"name": "blue"}, "spec": spec}, PLACE)

    async def network(self) -> None:
        name = self._rng.choice(NAMES)
        await self._cluster.configure(self._rng.choice(SUBNETS), name=name)

    async def leave(self) -> None:
        rng = self._rng
        with suppress(KubeError):
            await self._cluster.client.delete(NADS, f"nad{rng.randrange(4)}", PLACE)
        with suppress(KubeError):
            await self._cluster.client.delete(NODES, rng.choice(("node1", "node2")))

    async def nic(self) -> None:
        """A NIC comes, or one goes."""
        rng = self._rng
        if rng.random() < 0.3:
            with suppress(KubeError):
                await self._cluster.delete(f"nic{rng.randrange(max(self._count, 1))}")
            return
        wanted = rng.choice(("pool", "pool", "pool", self.address()))
        force = rng.random() < 0.3 and wanted != "pool"
        await self._cluster.nic(f"nic{self._count}", wanted, network=rng.choice(NAMES), force=force)
        self._count += 1

    async def _put(self, resource: object, body: dict[str, object], namespace: str = "") -> None:
        """Create or replace an object."""
        meta = body["metadata"]
        assert isinstance(meta, dict)
        meta |= {"namespace": namespace} if namespace else {}
        with suppress(KubeError):
            await self._cluster.client.delete(resource, meta["name"], namespace)  # type: ignore[arg-type]
        await self._cluster.keep(resource, body)  # type: ignore[arg-type]


class Judge:
    """What holds of addresses, from the objects as they are now."""

    def __init__(self, cluster: WireCluster) -> None:
        self._cluster = cluster

    async def read(self) -> None:
        client = self._cluster.client
        self.networks = {item.metadata.name: item for item in (await client.list(NETWORKS)).items}
        self.nics = (await client.list(NICS)).items
        self._wires: Wires = await read_wires(client)
        self._nads = (await client.list(NADS)).items
        self._reports = (await client.list(CLUSTER_NETWORK_NODES)).items
        self._nodes: list[Held] = [read_node(item) for item in (await client.list(NODES)).items]
        self._nodes += map(read_management, self._reports)

    def wires(self, network: Network) -> frozenset[Wire]:
        return self._wires.wires_of_network(network)

    def held(self, network: Network) -> Held:
        """Who has which address apart from NICs."""
        found: list[Held] = list(self._nodes)
        for wire in self.wires(network):
            # Of all NADs: which of them tell of addresses is for the reader to know.
            found += [read_held(nad) for nad in self._nads if wire in self._wires.wires_of(nad)]
            found += [self._wires.reported(report, wire) for report in self._reports]
        model = network_of(network)
        every = {address: holder for item in found for address, holder in item.items()}
        return {address: holder for address, holder in every.items() if model.subnet_of(address)}

    def peers(self, network: Network) -> Iterator[Network]:
        """The other networks on its wires with overlapping subnets."""
        wires, model = self.wires(network), network_of(network)
        for other in self.networks.values():
            beside = other.metadata.name != network.metadata.name and wires & self.wires(other)
            if beside and overlap(model, network_of(other)):
                yield other

    def others(self, nic: Nic) -> Iterator[Address]:
        """The addresses of a NIC that another holder has."""
        network = self.networks[nic.spec.network]
        held, peers = self.held(network), {peer.metadata.name for peer in self.peers(network)}
        for address in find_addresses(nic.status.ips):
            theirs = (
                other
                for other in self.nics
                if other.status.network in peers and address in find_addresses(other.status.ips)
            )
            if address in held or next(theirs, None) is not None:
                yield address

    def complaints(self) -> Iterator[str]:
        for nic in self.nics:
            key, reported = nic.metadata.key, find(nic.status.conditions, "Unique") is not None
            others = [] if nic.spec.force else list(self.others(nic))
            if bool(others) != reported:
                yield f"{key} has {nic.status.ips}, of which others have {others}, and reports it: {reported}"
            if (
                is_refused(nic)
                and nic.spec.ips == ("pool",)
                and self._has_room(self.networks[nic.spec.network])
            ):
                yield f"{key} waits, although its network has room"

    def _has_room(self, network: Network) -> bool:
        peers = [ledger_of(peer, self.nics) for peer in self.peers(network)]
        ledger = ledger_of(network, self.nics)
        ledger.connect(self.held(network), tuple(peers))
        try:
            ledger.begin().take_next("default/somebody", "pool")
        except Exhausted:
            return False
        return True


async def story(cluster: WireCluster, rng: Random) -> None:
    """In turn: anything at all, then only NICs, of which those that ask for any address get a free one."""
    cluster.lead()
    for name in NAMES:
        await cluster.network(name, rng.choice(SUBNETS))
    users, judge = Wanderers(cluster, rng), Judge(cluster)
    for _ in range(BURSTS):
        for _ in range(EVENTS):
            await rng.choice((*users.events, users.nic))()
        await cluster.rest()
        await judge.read()
        assert list(judge.complaints()) == []
        before = {nic.metadata.uid for nic in judge.nics}
        for _ in range(EVENTS):
            await users.nic()
        await cluster.rest()
        await judge.read()
        assert list(judge.complaints()) == []
        fresh = [nic for nic in judge.nics if nic.metadata.uid not in before and nic.spec.ips == ("pool",)]
        forced = {ip for nic in judge.nics if nic.spec.force for ip in nic.status.ips}
        assert [
            nic.status.ips for nic in fresh if list(judge.others(nic)) and not forced & {*nic.status.ips}
        ] == []


@pytest.mark.parametrize("seed", seeds(60))
def test_no_address_is_given_away_that_somebody_has(seed: int) -> None:
    """After any events, what is given is free, what is double is reported by all, and no NIC waits while there are free
    ones.
    """
    rng = Random(seed)

    async def played(cluster: WireCluster) -> None:
        await story(cluster, rng)

    play(played, WireCluster, rng=Random(seed), seed=seed)
