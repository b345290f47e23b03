"""Ports of machines on a real kernel: found by nothing that a pod can forge, and moved with what belongs to them."""

import json
import subprocess
from pathlib import Path

import pytest

from lanloom.features.liveupdate.rules.announcement import frames
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget
from lanloom.features.liveupdate.rules.port import PortBinding, PortConflict, goal_on, is_bound
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink import bridgeports
from lanloom.node.netlink.bridgedrift import LISTENING
from tests.features.lan.kernel.machines import batch, run, until
from tests.features.liveupdate.kernel.ground import (
    INTERFACE,
    MAC,
    Ground,
    identity,
    is_silent,
    names_told,
    pings,
    told_links,
)
from tests.harness.others import has_carrier, installed, others, steady


def carrier_changes(where: Path, link: str = "guest0") -> int:
    """How often a link, by default the machine's, lost or got its carrier."""
    return int(
        json.loads(run(where, f"ip -s -s -json link show {link}"))[0]["stats64"]["tx"]["carrier_changes"]
    )


async def goal(ground: Ground, place: BridgeTarget, link: str = "port-db") -> PortBinding:
    """How the machine's port belongs onto a bridge."""
    return goal_on(place, await ground.kernel.bridge(place.bridge), link)


async def test_a_port_is_found(ground: Ground) -> None:
    """A NIC's port is the other end of its veth pair, on the bridge where it is."""
    found = await ground.kernel.find(identity())
    binding = await ground.kernel.inspect(found)
    assert (binding.link, binding.ns, binding.bridge, binding.up) == ("port-db", "", "one-br", True)


async def test_a_hint_is_no_proof(ground: Ground) -> None:
    """A path at which another namespace is now does not mislead."""
    found = await ground.kernel.find(identity())
    again = await ground.kernel.find(identity(), hint=str(ground.directory / "one"))
    assert again == found


async def test_a_forged_pod_is_refused(ground: Ground) -> None:
    """Where another pod has the same interfaces, hardware addresses and address, nothing is moved."""
    ground.pod("forger", "one-br")
    with pytest.raises(PortConflict, match="2 namespaces"):
        await ground.kernel.find(identity())


async def test_another_pod_is_not_the_machines(ground: Ground) -> None:
    """A pod with the interface's name and another address or hardware address is not taken for the machine's."""
    with pytest.raises(PortConflict, match="no namespace"):
        await ground.kernel.find(identity(address="10.0.0.8"))
    with pytest.raises(PortConflict, match="no namespace"):
        await ground.kernel.find(identity(mac="02:00:00:00:00:08"))


async def test_a_pod_without_known_marks_is_refused(ground: Ground) -> None:
    """A pod of which neither address nor hardware addresses are known is not found by an interface's name."""
    with pytest.raises(PortConflict, match="no namespace"):
        await ground.kernel.find(identity(mac="", address=""))


async def test_an_unbound_nic_is_refused(ground: Ground) -> None:
    """A NIC that KubeVirt has not bound yet is not moved."""
    ground.pod("young", "one-br", mac="02:00:00:00:00:09", address="10.0.0.9", bound=False)
    with pytest.raises(PortConflict, match="is not bound to the machine"):
        await ground.kernel.find(identity("young", mac="02:00:00:00:00:09", address="10.0.0.9"))


async def test_a_port_moves_between_bridges(ground: Ground) -> None:
    """A machine reaches the peer of its new network and no longer that of the old one, with its hardware address."""
    kernel, place = ground.kernel, BridgeTarget(bridge="two-br", hairpin=True, isolated=True)
    found = await kernel.find(identity())
    wanted = await goal(ground, place)
    await kernel.move(found, wanted)
    binding = await kernel.inspect(found)
    assert is_bound(binding, wanted) and binding.hairpin and binding.isolated and binding.link == "port-db"
    assert pings(ground.directory / "two")
    assert is_silent(ground.directory / "one")
    assert MAC in run(ground.directory / "two", "ip neighbour")


@pytest.mark.parametrize(
    ("alias", "setting"), [("", "1"), ("somebody's", "1"), ("lanloom-dummy u1", "0"), ("lanloom", "1")]
)
async def test_guests_of_an_isolated_bridge_are_no_routers(ground: Ground, alias: str, setting: str) -> None:
    """A move lets the host ignore routers on an isolated bridge, as CNI's plugin does, and changes no other bridge."""
    if alias:
        with open_namespace(ground.host) as host:
            words = ["ip", "link", "set", "two-br", "alias", alias]
            host.call(lambda: subprocess.run(words, check=True))
    run(ground.host, "sysctl -q -w net.ipv6.conf.two-br.accept_ra=1")
    await ground.kernel.move(
        await ground.kernel.find(identity()), await goal(ground, BridgeTarget(bridge="two-br"))
    )
    assert run(ground.host, "sysctl --values net.ipv6.conf.two-br.accept_ra").strip() == setting


async def test_the_guests_link_stays(ground: Ground) -> None:
    """The machine's own link does not lose its carrier while its port moves."""
    guest = ground.directory / "guest-db"
    found = await ground.kernel.find(identity())
    before = carrier_changes(guest)
    await ground.kernel.move(found, await goal(ground, BridgeTarget(bridge="two-br")))
    assert carrier_changes(guest) == before


async def test_nothing_in_the_pod_loses_its_carrier(ground: Ground) -> None:
    """Between two bridges of the node, no link of the pod loses its carrier: that costs more time than the move."""
    pod = ground.directory / "db"
    nic = f"{INTERFACE.removeprefix('pod')}-nic"

    found = await ground.kernel.find(identity())
    before = carrier_changes(pod, nic)
    for bridge in ("two-br", "one-br"):
        await ground.kernel.move(found, await goal(ground, BridgeTarget(bridge=bridge)))
    assert carrier_changes(pod, nic) == before


async def test_a_pair_that_was_left_stopped(ground: Ground) -> None:
    """A machine whose agent died while its NIC was stopped is not where it belongs, until it is moved."""
    pod, kernel = ground.directory / "db", ground.kernel
    found = await kernel.find(identity())
    wanted = await goal(ground, BridgeTarget(bridge="one-br"))
    for bridge in ("one-br", "two-br"):
        with open_namespace(pod) as there, there.socket() as sock:
            bridgeports.set_state(sock, found.nic, LISTENING)
        assert not is_bound(await kernel.inspect(found), wanted)
        assert is_silent(ground.directory / bridge.removesuffix("-br"))
        run(ground.host, f"ip link set port-db master {bridge}")
        await kernel.move(found, wanted)
        assert is_bound(await kernel.inspect(found), wanted)
        assert pings(ground.directory / "one")


async def test_a_pod_whose_bridge_has_a_spanning_tree(ground: Ground) -> None:
    """A port moves also where the kernel itself sets the states of ports in the pod."""
    run(ground.directory / "db", f"ip link set k6t-{INTERFACE.removeprefix('pod')} type bridge stp_state 1")
    found = await ground.kernel.find(identity())
    wanted = await goal(ground, BridgeTarget(bridge="two-br"))
    await ground.kernel.move(found, wanted)
    assert is_bound(await ground.kernel.inspect(found), wanted)


async def test_moving_again_changes_nothing(ground: Ground) -> None:
    """A move that is repeated, or was interrupted with the port down and on no bridge, ends at the same place."""
    kernel = ground.kernel
    found = await kernel.find(identity())
    wanted = await goal(ground, BridgeTarget(bridge="two-br"))
    run(ground.host, "ip link set port-db down nomaster")
    assert (await kernel.inspect(found)).bridge == ""
    for _ in range(2):
        await kernel.move(found, wanted)
        assert is_bound(await kernel.inspect(found), wanted)


async def test_announced_frames_move_what_bridges_learned(ground: Ground) -> None:
    """After these frames the new bridge knows the machine's place though the machine has sent nothing."""
    run(ground.directory / "guest-db", "ip link set guest0 down")
    found = await ground.kernel.find(identity())
    await ground.kernel.move(found, await goal(ground, BridgeTarget(bridge="two-br")))
    await ground.kernel.send(found, frames(MAC, ["10.7.0.7/24", "fd00::7", "no address"]))
    await until(lambda: f"{MAC} dev port-db master two-br" in run(ground.host, "bridge fdb show br two-br"))


async def test_a_bridge_that_is_not_there(ground: Ground) -> None:
    """A bridge that the node does not have is refused before the port is touched, and so is a link of another kind."""
    with pytest.raises(PortConflict, match="there is no bridge none-br"):
        await goal(ground, BridgeTarget(bridge="none-br"))
    with pytest.raises(PortConflict, match="is no bridge"):
        await ground.kernel.bridge("port-db")


async def test_a_port_moves_into_a_namespace_and_back(ground: Ground) -> None:
    """A port goes to a bridge of another namespace under the name it has there, and comes back under its own."""
    lan = ground.space("blue")
    run(lan, "ip link add br0 type bridge")
    run(lan, "ip link set br0 up")
    kernel = ground.kernel
    found = await kernel.find(identity())
    inside = PortBinding(link="webV0", ns=str(lan), bridge="br0", group_forwarding=0xFFFD, mtu=1450)
    await kernel.move(found, inside)
    binding = await kernel.inspect(found)
    assert is_bound(binding, inside) and (binding.link, binding.mtu, binding.group_forwarding) == (
        "webV0",
        1450,
        0xFFFD,
    )
    assert "mtu 1450" in run(ground.directory / "db", f"ip link show {INTERFACE.removeprefix('pod')}-nic")
    back = await goal(ground, BridgeTarget(bridge="one-br"))
    await kernel.move(found, back)
    assert is_bound(await kernel.inspect(found), back)
    assert pings(ground.directory / "one")


async def test_a_port_comes_back_under_its_name_at_once(ground: Ground) -> None:
    """No program on the node ever sees the name that a port had in its LAN: it might take such a link over."""
    lan = ground.space("blue")
    run(lan, "ip link add br0 type bridge")
    run(lan, "ip link set br0 up")
    kernel = ground.kernel
    found = await kernel.find(identity())
    await kernel.move(found, PortBinding(link="webV0", ns=str(lan), bridge="br0", mtu=1450))
    with told_links(ground.host) as sock:
        await kernel.move(found, await goal(ground, BridgeTarget(bridge="one-br")))
        names = names_told(sock)
    assert "port-db" in names
    assert "webV0" not in names


async def test_a_port_that_was_left_on_its_way_out(ground: Ground) -> None:
    """A move out of a LAN that ended after the port was renamed goes on, or back under the LAN's name."""
    lan = ground.space("blue")
    run(lan, "ip link add br0 type bridge")
    run(lan, "ip link set br0 up")
    kernel, inside = ground.kernel, PortBinding(link="webV0", ns=str(lan), bridge="br0", mtu=1450)
    found = await kernel.find(identity())
    await kernel.move(found, inside)
    run(lan, "ip link set webV0 down")
    run(lan, "ip link set webV0 name port-db")
    assert not is_bound(await kernel.inspect(found), inside)
    await kernel.move(found, inside)
    assert is_bound(await kernel.inspect(found), inside)


async def test_a_port_goes_to_and_fro(ground: Ground) -> None:
    """A port that moves again and again forwards as soon as it has moved, and its new peer reaches the machine."""
    found = await ground.kernel.find(identity())
    # A bridge forwards to a new port once the kernel tells the port's carrier, which is a moment after it is up.
    await until(lambda: "state forwarding" in run(ground.host, "bridge link show dev port-db"))
    for bridge in ("two", "one", "two", "one"):
        await ground.kernel.move(found, await goal(ground, BridgeTarget(bridge=f"{bridge}-br")))
        assert f"master {bridge}-br state forwarding" in run(ground.host, "bridge link show dev port-db")
        await ground.kernel.send(found, frames(MAC, ["10.7.0.7"]))
        assert pings(ground.directory / bridge)


@pytest.mark.parametrize("mtu", [0, 1300, 9000])
async def test_links_of_others_stay(bare: Ground, mtu: int) -> None:
    """Bridges of others between which a port moves, and what stands on them, keep all that the port did not bring."""
    for number in (1, 2):
        for command in installed(f"site{number}-br", f"site{number}-bo", filtering=False):
            run(bare.host, command.replace("upper", f"upper{number}").replace("wire0", f"wire{number}"))
    known = [f"{name}{number}" for name in ("upper", "wire") for number in (1, 2)]
    known += [f"site{number}-{end}" for end in ("br", "bo") for number in (1, 2)]
    await until(lambda: has_carrier(others(bare.host, known)))
    before = others(bare.host, known)
    bare.pod("db", "site1-br")
    run(bare.host, "ip link set port-db address fe:ff:00:00:00:01")
    lan = bare.space("blue")
    batch(lan, "link add br0 up type bridge")
    found = await bare.kernel.find(identity())
    inside = PortBinding(link="webV0", ns=str(lan), bridge="br0", mtu=1200)
    nic = f"{INTERFACE.removeprefix('pod')}-nic"
    for there in ("site2-br", "site1-br", "lan", "site2-br", "site2-br"):
        place = BridgeTarget(bridge=there, mtu=mtu)
        wanted = inside if there == "lan" else await goal(bare, place)
        if (await bare.kernel.inspect(found)).bridge not in (there, "br0"):
            run(bare.host, "ip link set port-db address 02:00:00:00:00:01")  # as a random one may be
        await bare.kernel.move(found, wanted)
        assert steady(others(bare.host, known)) == steady(before)
        assert f"mtu {wanted.mtu} " in run(bare.directory / "db", f"ip link show {nic}")
        assert (await bare.kernel.inspect(found)).mtu == wanted.mtu
    run(bare.host, "ip link delete port-db")
    assert others(bare.host, known) == before
