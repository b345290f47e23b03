"""What a move of a port leaves alone: the pod's other interfaces, and rules of the node that name the port."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lanloom.features.liveupdate.agent.links import CNI_CHAIN, CNI_TABLE
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget
from lanloom.features.liveupdate.rules.port import PortBinding
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink import packetfilter
from lanloom.node.netlink.expressions import drop, from_another, from_link
from tests.features.lan.kernel.machines import batch, forget_neighbours, run, until
from tests.features.liveupdate.kernel.ground import INTERFACE, MAC, Ground, identity, is_silent, pings
from tests.features.liveupdate.kernel.test_ports import goal
from tests.harness.others import has_carrier, others, steady

NIC = f"{INTERFACE.removeprefix('pod')}-nic"
BRIDGE = f"k6t-{INTERFACE.removeprefix('pod')}"
UNTOUCHED = ("lo", "eth0", "far0", "net2", "far2", INTERFACE, BRIDGE, "tap0")


def inside(pod: Path) -> Mapping[str, Any]:
    """All interfaces of a pod but the NIC's end of its pair, without what the kernel does a moment later by itself.

    Of the bridge and its ports, what was not set follows the other port.
    """
    found = dict(steady(others(pod, UNTOUCHED)))
    for name, link in tuple(found.items()):
        link["addr_info"] = [item for item in link["addr_info"] if item["scope"] != "link"]
        if name in (BRIDGE, "tap0"):
            found[name] = {key: link.get(key) for key in ("mtu", "address", "master", "addr_info")}
    return found


@pytest.mark.parametrize("mtu", [0, 1400])
async def test_the_other_interfaces_of_the_pod(ground: Ground, mtu: int) -> None:
    """eth0, other networks' interfaces, and what KubeVirt made for the NIC keep all that the kernel tells of them."""
    pod, lan = ground.directory / "db", ground.space("blue")
    batch(lan, "link add br0 up type bridge")
    batch(
        pod,
        "link add net2 type veth peer name far2",
        "address add 10.9.0.7/24 dev net2",
        "link set far2 up",
        "link set net2 up",
        "link set far0 up",
        f"address add 10.71.0.1/24 dev {INTERFACE}",
        f"link set {BRIDGE} mtu 1400",
    )
    await until(lambda: has_carrier(others(pod, ("eth0", "far0", "net2", "far2"))))
    before = inside(pod)
    assert set(UNTOUCHED) - {"tap0"} <= before.keys()
    found = await ground.kernel.find(identity())
    for there in ("two-br", "lan", "one-br"):
        binding = PortBinding(link="webV0", ns=str(lan), bridge="br0", mtu=mtu or 1500)
        place = BridgeTarget(bridge=there, mtu=mtu)
        await ground.kernel.move(found, binding if there == "lan" else await goal(ground, place))
        assert inside(pod) == before


@pytest.mark.parametrize("guarded", [True, False])
async def test_rules_that_name_the_port(ground: Ground, guarded: bool) -> None:
    """A machine whose port has rules of macspoofchk can't take another hardware address, before and after a move."""
    link = "port-db" if guarded else "port-x"
    rule = packetfilter.Rule(from_link(link) + from_another(MAC) + drop())
    chain = packetfilter.Chain(CNI_CHAIN, packetfilter.PRE_ROUTING, -300, (rule,))
    with (
        open_namespace(ground.host) as host,
        host.call(packetfilter.open_filter_socket) as sock,
    ):
        packetfilter.replace_table(sock, CNI_TABLE, "cni", (), (chain,))
    assert await ground.kernel.guards("port-db") == guarded
    guest = ground.directory / "guest-db"
    found = await ground.kernel.find(identity())
    for bridge in ("one", "two"):
        await ground.kernel.move(found, await goal(ground, BridgeTarget(bridge=f"{bridge}-br")))
        run(guest, f"ip link set guest0 address {MAC}")
        forget_neighbours(ground.directory / bridge)
        assert pings(ground.directory / bridge)
        run(guest, "ip link set guest0 address 02:00:00:00:00:66")
        forget_neighbours(ground.directory / bridge)
        where = ground.directory / bridge
        assert is_silent(where) if guarded else pings(where)
