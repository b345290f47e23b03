"""Live update on a lab: real guests change their network while they run, by live migration.

What a guest must not notice is looked at in the guest: its boot, its MAC address, and how often its link went down.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from lanloom.api.liveupdate import POLICY
from lanloom.api.meta import parse_rfc3339
from lanloom_lab.kubevirt.objects import BANDWIDTH
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.isolated import Isolated, network_body, pod
from tests.lab.machines import Identity, Machine, remove_machines
from tests.lab.objects import example
from tests.lab.test_lan import lan
from tests.lab.test_lan import pod as lan_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

LONG = 300.0
"""Seconds for a migration, and those that must fail before it."""

FIRST, SECOND = "192.168.1", "192.168.2"
"""The networks of the DHCP servers on VLAN 2012 and 2013."""

SERVERS = {"vlan2012": f"{FIRST}.1", "vlan2013": f"{SECOND}.1"}


def vlan(name: str, vid: int) -> Raw:
    """A NAD of a VLAN on cluster-1, for machines alone."""
    config = {
        "cniVersion": "0.3.1",
        "name": name,
        "type": "bridge",
        "bridge": "cluster-1-br",
        "vlan": vid,
        "ipam": {},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"config": json.dumps(config)},
    }


@pytest.fixture(scope="module")
def vlans(lab: Lab) -> Iterator[Lab]:
    """The lab with the NADs vlan2012 and vlan2013."""
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    lab.apply(vlan("vlan2012", 2012), vlan("vlan2013", 2013))
    try:
        yield lab
    finally:
        remove_networks(lab)


@pytest.fixture
def machine(vlans: Lab) -> Iterator[Machine]:
    """A machine that a test creates; afterwards there is none, and all nodes run."""
    try:
        yield Machine(vlans, "vm1")
    finally:
        for node in vlans.status()["nodes"]:
            if node["state"] == "stopped":
                vlans.run("node", "start", node["name"])
        remove_machines(vlans)


def start(machine: Machine, *, migratable: bool = True) -> Identity:
    """Start a machine on VLAN 2012 that has addresses of both VLANs' networks, and return what must stay."""
    machine.create("vlan2012", address=f"{FIRST}.50/24", migratable=migratable)
    machine.run(f"ip address add {SECOND}.50/24 dev eth0")
    check_place(machine, "vlan2012")
    return machine.identity()


def check_place(machine: Machine, nad: str) -> None:
    """The guest soon reaches the host on this VLAN, and not that of the other."""
    eventually(lambda: machine.reaches(SERVERS[nad]))
    for other, address in SERVERS.items():
        assert other == nad or not machine.reaches(address)


def test_a_swap_by_migration(machine: Machine) -> None:
    """A guest whose VirtualMachine names another NAD moves to another node and that network, and notices nothing."""
    before, node = start(machine), machine.node
    machine.edit(net0="vlan2013")
    eventually(lambda: machine.attached("net0") == "default/vlan2013", timeout=LONG)
    check_place(machine, "vlan2013")
    assert machine.identity() == before
    assert machine.node != node
    eventually(lambda: list(machine.migrations().values()) == ["Succeeded"])
    eventually(lambda: not machine.condition("vmi", "MigrationRequired"))
    assert not machine.condition("vm", "RestartRequired")


def test_a_machine_that_can_not_migrate(machine: Machine) -> None:
    """A machine that can't migrate needs a restart for another NAD; until then its guest stays where it is."""
    before = start(machine, migratable=False)
    machine.edit(net0="vlan2013")
    eventually(lambda: machine.condition("vm", "RestartRequired").get("status") == "True")
    check_place(machine, "vlan2012")
    assert machine.identity() == before
    assert not machine.migrations()
    machine.edit(net0="vlan2012")
    eventually(lambda: not machine.condition("vm", "RestartRequired"))


def test_the_target_dies(machine: Machine) -> None:
    """A guest whose target dies while it is being sent runs on, and a later try moves it to a third node."""
    before, node = start(machine), machine.node
    machine.lab.kubectl("annotate", "vmi", machine.name, f"{BANDWIDTH}=0")
    machine.edit(net0="vlan2013")
    eventually(lambda: "TargetReady" in machine.migrations().values(), timeout=LONG)
    target = str(machine.migration_state()["targetNode"])
    hold_midway(machine)
    machine.lab.kubectl("annotate", "vmi", machine.name, f"{BANDWIDTH}=100", "--overwrite")
    eventually(lambda: "Running" in machine.migrations().values(), timeout=LONG)
    # The later try, which begins after 20 s, waits at its target until all is looked at.
    machine.lab.kubectl("annotate", "vmi", machine.name, f"{BANDWIDTH}=0", "--overwrite")
    machine.lab.run("node", "stop", target)
    eventually(lambda: "Failed" in machine.migrations().values(), timeout=LONG)
    eventually(lambda: "Unable to write to socket" in failure(machine))
    assert (machine.identity(), machine.node) == (before, node)
    assert machine.attached("net0") == "default/vlan2012"
    check_place(machine, "vlan2012")
    machine.lab.kubectl("annotate", "vmi", machine.name, f"{BANDWIDTH}-")
    eventually(lambda: machine.attached("net0") == "default/vlan2013", timeout=LONG)
    check_place(machine, "vlan2013")
    assert machine.identity() == before
    assert machine.node not in (node, target)
    assert seconds_until_retry(machine) >= 20


def hold_midway(machine: Machine) -> None:
    """Stop the target's QEMU, which listens: it reads nothing, and the source can't send more than a socket holds."""
    state = machine.migration_state()
    find = f"ip netns pids default.{state['targetPod']}"
    stop = "grep -qa incoming /proc/$pid/cmdline && kill -STOP $pid && echo $pid"
    assert machine.lab.on(str(state["targetNode"]), f"for pid in $({find}); do {stop}; done; true").split()


def failure(machine: Machine) -> str:
    """Why the machine's first migration failed; empty while that is not reported."""
    state = machine.history()[0]["status"].get("migrationState") or {}
    return str(state.get("failureReason", ""))


def seconds_until_retry(machine: Machine) -> float:
    """How long after the end of the first migration the second one was requested."""
    first, second = machine.history()
    stamps = {
        item["phase"]: item["phaseTransitionTimestamp"]
        for item in first["status"]["phaseTransitionTimestamps"]
    }
    return parse_rfc3339(second["metadata"]["creationTimestamp"]) - parse_rfc3339(stamps["Failed"])


def test_a_missing_nad(machine: Machine) -> None:
    """A NAD that is not there moves nothing, and the machine says so; one that comes after all is moved to."""
    before, node = start(machine), machine.node
    machine.edit(net0="nowhere")
    eventually(lambda: "nowhere" in machine.complaint())
    check_place(machine, "vlan2012")
    assert (machine.identity(), machine.node, machine.migrations()) == (before, node, {})
    machine.lab.apply(vlan("nowhere", 2013))
    try:
        eventually(lambda: machine.attached("net0") == "default/nowhere", timeout=LONG)
        check_place(machine, "vlan2013")
        assert machine.identity() == before
    finally:
        remove_machines(machine.lab)
        machine.lab.kubectl("delete", "net-attach-def", "nowhere")


def test_an_edit_is_reverted(machine: Machine) -> None:
    """An edit waits while no other node takes the machine, and is taken back without a migration."""
    before, node = start(machine), machine.node
    others = [name for name in ("node1", "node2", "node3") if name != node]
    try:
        machine.lab.kubectl("cordon", *others)
        machine.edit(net0="vlan2013")
        eventually(lambda: machine.condition("vmi", "NetworksCurrent").get("reason") == "PreflightFailed")
        assert not machine.migrations()
        machine.edit(net0="vlan2012")
        eventually(lambda: machine.condition("vmi", "NetworksCurrent").get("status") == "True")
    finally:
        machine.lab.kubectl("uncordon", *others)
    check_place(machine, "vlan2012")
    assert (machine.identity(), machine.node) == (before, node)
    assert not machine.migrations()
    assert len(machine.pods()) == 1


def test_a_swap_and_a_new_nic(machine: Machine) -> None:
    """One edit that swaps a NIC and adds another gives the guest both, after one migration."""
    before = start(machine)
    machine.edit(net0="vlan2013", net1="vlan2012")
    eventually(lambda: machine.attached("net1") == "default/vlan2012", timeout=LONG)
    assert machine.attached("net0") == "default/vlan2013"
    eventually(lambda: list(machine.migrations().values()) == ["Succeeded"])
    eventually(lambda: machine.attempt("hardware_address eth1"))
    machine.run(f"ip address del {FIRST}.50/24 dev eth0")
    machine.run(f"ip link set eth1 up && ip address add {FIRST}.51/24 dev eth1")
    for address in SERVERS.values():
        eventually(partial(machine.reaches, address))
    assert machine.identity() == before


def test_a_move_in_place(machine: Machine) -> None:
    """A machine that can't migrate moves in place, on its node, and its VirtualMachine names the new NAD after that."""
    before, node = start(machine, migratable=False), machine.node
    move(machine, "vlan2013")
    check_place(machine, "vlan2013")
    assert machine.identity() == before
    assert (machine.node, machine.attached("net0")) == (node, "default/vlan2013")
    assert not machine.migrations()
    assert "vlan2013" in json.dumps(machine.machine()["spec"])
    eventually(lambda: not machine.condition("vmi", "MigrationRequired"))
    assert not machine.condition("vm", "RestartRequired")


def test_edits_to_and_fro(machine: Machine) -> None:
    """A NIC that is edited to and fro ends on the last network with nothing under way, by migration and in place."""
    before = start(machine)
    for nad in ("vlan2013", "vlan2012", "vlan2013"):
        machine.edit(net0=nad)
    check_settled(machine, "vlan2013")
    assert machine.identity() == before
    node, migrations = machine.node, machine.migrations()
    machine.lab.kubectl("annotate", "vm", machine.name, f"{POLICY}=in-place")
    for nad in ("vlan2012", "vlan2013", "vlan2012"):
        machine.edit(net0=nad)
    check_settled(machine, "vlan2012")
    assert machine.identity() == before
    assert (machine.node, machine.migrations()) == (node, migrations)


def check_settled(machine: Machine, nad: str) -> None:
    """The machine soon is on a network and nothing is under way; then it stays so."""
    eventually(lambda: is_settled(machine, nad), timeout=LONG)
    check_place(machine, nad)
    assert is_settled(machine, nad)


def is_settled(machine: Machine, nad: str) -> bool:
    """Whether all objects say that the machine is on a network, and none of them that it goes elsewhere."""
    swaps = json.loads(machine.lab.kubectl("get", "nswap", "-o", "json"))["items"]
    phases = {*machine.migrations().values(), *(item.get("status", {}).get("phase") for item in swaps)}
    network = machine.instance()["spec"]["networks"][0]["multus"]["networkName"]
    current = machine.condition("vmi", "NetworksCurrent")
    return (
        (machine.attached("net0"), network) == (f"default/{nad}", nad)
        and current.get("status") == "True"
        and not machine.condition("vmi", "MigrationRequired")
        and phases <= {"Succeeded", "Failed", "Reverted"}
        and len(machine.pods()) == 1
    )


def test_moves_between_kinds_of_networks(machine: Machine) -> None:
    """A guest moves in place from a VLAN to an isolated network and to a LAN, and back, and has the peers of each.

    It leaves a LAN that is being deleted by migration, too.
    """
    lab = machine.lab
    lab.apply(network_body("iso"), lan("blue", 4711, "web", "peer"))
    lab.kubectl("wait", "--for=condition=Ready", "dcn/iso", "--timeout=300s")
    try:
        before, node = start(machine), machine.node
        lab.apply(pod("iso-peer", node, "iso-net"), lan_pod("peer", node))
        lab.kubectl("wait", "--for=condition=Ready", "pod/iso-peer", "pod/peer", "--timeout=300s")
        for name, address in (("iso-peer", f"{FIRST}.61"), ("peer", f"{FIRST}.62")):
            lab.on(node, f"ip -n default.{name} address add {address}/24 dev net1")
        peers = {"vlan2012": f"{FIRST}.1", "iso-net": f"{FIRST}.61", "k8slan-veth-web": f"{FIRST}.62"}
        for nad in ("iso-net", "k8slan-veth-web", "iso-net", "vlan2012"):
            move(machine, nad)
            eventually(partial(machine.reaches, peers[nad]))
            assert not any(machine.reaches(peers[other]) for other in peers if other != nad)
            assert machine.identity() == before
            assert (nad == "iso-net") == (machine.name in lab.lanloom("dummy", "show", "iso"))
        move(machine, "k8slan-veth-web")
        lab.kubectl("delete", "lans.lan.k8slan.io", "blue", "--wait=false")
        printed = lab.lanloom("vm", "move", machine.name, "net0", "--to", "vlan2012", "--wait")
        assert "moved by live migration" in printed, printed
        check_place(machine, "vlan2012")
        assert machine.identity() == before and machine.node != node
    finally:
        remove_machines(lab)
        lab.kubectl("delete", "pods", "--all", "--timeout=300s")
        lab.kubectl("delete", "lans.lan.k8slan.io,dcn", "--all", "--timeout=300s")


def test_addresses_follow(machine: Machine) -> None:
    """A guest that moves in place to a network with addresses gets one of these, which is free after it has left."""
    lab = machine.lab
    lab.apply(network_body("iso", subnet="10.77.0.0/24"))
    lab.kubectl("wait", "--for=condition=Ready", "dcn/iso", "--timeout=300s")
    try:
        before, node = start(machine), machine.node
        lab.apply(pod("iso-peer", node, "iso-net"))
        lab.kubectl("wait", "--for=condition=Ready", "pod/iso-peer", "--timeout=300s")
        peer = Isolated(lab).address("iso-peer")
        move(machine, "iso-net")
        swaps = json.loads(lab.kubectl("get", "nswap", "-o", "json"))["items"]
        swap = max(swaps, key=lambda item: str(item["metadata"]["creationTimestamp"]))
        (address,) = (str(item).split("/")[0] for item in swap["status"]["addresses"])
        assert address.startswith("10.77.0.") and address != peer
        assert address in owned_addresses(lab)
        machine.run(f"ip address add {address}/24 dev eth0")
        eventually(lambda: machine.reaches(peer))
        move(machine, "vlan2012")
        check_place(machine, "vlan2012")
        assert machine.identity() == before
        eventually(lambda: address not in owned_addresses(lab), timeout=LONG)
        assert peer in owned_addresses(lab)
    finally:
        remove_machines(lab)
        lab.kubectl("delete", "pods", "--all", "--timeout=300s")
        lab.kubectl("delete", "dcn", "--all", "--timeout=300s")


def move(machine: Machine, nad: str) -> None:
    """Move the machine's NIC in place."""
    words = ("vm", "move", machine.name, "net0", "--to", nad, "--policy", "in-place", "--wait")
    printed = machine.lab.lanloom(*words)
    assert "moved in place" in printed, printed


def owned_addresses(lab: Lab) -> str:
    """What the NICs of address management own, as text."""
    items = json.loads(lab.kubectl("get", "nics.ipam.lanloom.io", "-A", "-o", "json"))["items"]
    return json.dumps([item.get("status", {}) for item in items])
