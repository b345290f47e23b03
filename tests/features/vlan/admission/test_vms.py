"""What is refused for the sake of VMs that run, and what is not."""

import pytest

from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.reader import ClusterReader
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import STATIC, Raw, machine, network, overlay_config, vm, world
from tests.features.vlan.cluster import nad, node, vlan_config
from tests.harness.admission import request

UPDATE = "can't update NetworkAttachmentDefinition default/net because "
DELETE = "can't delete NetworkAttachmentDefinition default/net because "
MAP = "network.harvesterhci.io/node-ip-map"
OVERLAY = nad("overlay", "cluster-1", config=overlay_config("overlay"))
TRUNK = {"vlanTrunk": [{"minID": 10, "maxID": 20}]}
NODE1, NODE2 = ({"kubernetes.io/hostname": name} for name in ("node1", "node2"))


def static(**changes: str) -> Raw:
    """The network with static addresses, some of them changed; an empty one is left out."""
    addresses = {name: cidr for name, cidr in (STATIC | changes).items() if cidr}
    return network(mode="static", addresses=addresses)


def overlay_world(*more: Raw) -> ClusterReader:
    """The cluster with a VM of an overlay network on node1."""
    return world(OVERLAY, vm("web", "default/overlay"), *more)


def edit(new: Raw, old: Raw, seen: ClusterReader, why: str) -> Case:
    """An edit of a network that is refused."""
    return Case(request(NADS, new, old), seen, UPDATE + why)


OVERLAY_CASES: Cases = {
    "node addresses are not switched off under overlay VMs": edit(
        network(mode=""),
        network(),
        overlay_world(),
        "network.harvesterhci.io/l3-connectivity can't be switched off while the VMs default/web use overlay networks "
        "on cluster-1; stop them first",
    ),
    "the mode does not change under overlay VMs": edit(
        static(),
        network(),
        overlay_world(),
        'network.harvesterhci.io/mode can\'t change from "dhcp" to "static" while the VMs default/web use overlay '
        "networks on cluster-1; stop them first",
    ),
    "the VLAN of node addresses does not change under overlay VMs": edit(
        network(vid=2013),
        network(),
        overlay_world(),
        "spec.config.vlan can't change from 2012 to 2013 while the VMs default/web use overlay networks on cluster-1; "
        "stop them first",
    ),
    "the address of a node with overlay VMs does not change": edit(
        static(node1="192.168.1.20/24"),
        static(),
        overlay_world(),
        f"{MAP} changes or drops the address of node1 while the VMs default/web use overlay networks on cluster-1 "
        "there; stop or migrate them first",
    ),
    "the address of a node with overlay VMs does not go": edit(
        static(node1=""),
        static(),
        overlay_world(),
        f"{MAP} changes or drops the address of node1 while the VMs default/web use overlay networks on cluster-1 "
        "there; stop or migrate them first",
    ),
    "a network with node addresses is not deleted under overlay VMs": Case(
        request(NADS, None, network()),
        overlay_world(),
        f"{DELETE}it gives node addresses on cluster-1, over which the VMs default/web use overlay networks; stop them "
        "first",
    ),
}
USED_CASES: Cases = {
    "a network that VMs use is not deleted": Case(
        request(NADS, None, network(mode="")),
        world(vm("db", "net"), vm("web", "default/net", namespace="shop"), vm("other", "default/other")),
        f"{DELETE}the VMs default/db, 1 of other namespaces use it; stop them first",
    ),
    "a network that VirtualMachines name is not deleted": Case(
        request(NADS, None, network(mode="")),
        world(machine("web", "default/net", namespace="shop"), machine("db", "net"), vm("db", "net")),
        f"{DELETE}the VirtualMachines default/db, "
        "1 of other namespaces name it in spec.template.spec.networks and could not start "
        "without it; remove the network and its interface there, or delete the machines first",
    ),
    "the VLAN id of a network that VMs use does not change": edit(
        network(mode="", vid=2013),
        network(mode=""),
        world(vm("web", "net")),
        "spec.config.vlan can't change from 2012 to 2013 while the VMs default/web use it; stop them first",
    ),
    "the type of a network that VMs use does not change": edit(
        network(mode="", config={"vlan": 0}),
        network(mode=""),
        world(vm("web", "net")),
        "spec.config can't change the type from L2VlanNetwork to UntaggedNetwork while the VMs default/web use it; "
        "stop them first",
    ),
    "a trunk that VMs use loses no VLAN id": edit(
        nad("net", "cluster-1", config={"vlanTrunk": [{"minID": 10, "maxID": 19}]}),
        nad("net", "cluster-1", config=TRUNK),
        world(vm("web", "net")),
        "spec.config.vlanTrunk can't drop VLAN ids while the VMs default/web use it; stop them first",
    ),
}
UPLINK_CASES: Cases = {
    "a node with overlay VMs keeps its uplink": Case(
        request(
            VLAN_CONFIGS,
            vlan_config("one", "cluster-1", nodeSelector=NODE2),
            vlan_config("one", "cluster-1"),
        ),
        overlay_world(),
        "can't update VlanConfig one because node1 would lose the cluster network cluster-1 while the VMs default/web "
        "use networks of it there; stop or migrate them first",
    ),
    "a node with VMs of a VLAN network keeps its uplink": Case(
        request(
            VLAN_CONFIGS,
            vlan_config("one", "cluster-1", nodeSelector=NODE2),
            vlan_config("one", "cluster-1"),
        ),
        world(network(mode=""), vm("web", "net"), vm("db", "net"), vm("far", "net", node="node2")),
        "can't update VlanConfig one because node1 would lose the cluster network cluster-1 while the VMs default/db, "
        "default/web use networks of it there; stop or migrate them first",
    ),
    "an uplink under VMs is not deleted": Case(
        request(VLAN_CONFIGS, None, vlan_config("one", "cluster-1")),
        overlay_world(),
        "can't delete VlanConfig one because node1 would lose the cluster network cluster-1 while the VMs default/web "
        "use networks of it there; stop or migrate them first",
    ),
}


@each(OVERLAY_CASES)
def test_overlay_networks_keep_their_ground(case: Case) -> None:
    """Node addresses on which overlay networks with running VMs stand stay as they are; the message names the VMs."""
    assert answer(case) == case.message


@each(USED_CASES)
def test_networks_in_use_stay(case: Case) -> None:
    """A network that running VMs use keeps its VLANs; the message names the VMs."""
    assert answer(case) == case.message


@each(UPLINK_CASES)
def test_uplinks_in_use_stay(case: Case) -> None:
    """A node on which VMs use networks of a cluster network keeps its uplink; the message names VMs and nodes."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (network(), network(mode="")),
        (static(node2="192.168.1.12/24"), static()),
        (static(), static(node2="")),
        (static(), static()),
    ],
    ids=["switched on", "another node's address", "the address of a node that joined", "nothing"],
)
def test_overlay_vms_leave_the_rest_free(new: Raw, old: Raw) -> None:
    """Under overlay VMs node addresses can be switched on, and those of other nodes added and changed."""
    assert check_request(request(NADS, new, old), overlay_world()).message == ""


@pytest.mark.parametrize(
    "seen",
    [
        world(network(), vm("web", "net", phase="Succeeded"), vm("db", "net", phase="Failed")),
        world(network(), vm("web", "other/net")),
        world(network(), vm("web")),
        world(network(), OVERLAY, vm("web", "overlay", phase="Failed")),
    ],
    ids=["ended", "another namespace", "pod network", "ended overlay"],
)
def test_vms_that_need_nothing_do_not_count(seen: ClusterReader) -> None:
    """A VM that has ended, or uses other networks, hinders no request."""
    uplink = vlan_config("one", "cluster-1")
    for asked in (
        request(NADS, None, network()),
        request(NADS, network(mode="", vid=2013), network()),
        request(VLAN_CONFIGS, None, uplink),
        request(VLAN_CONFIGS, vlan_config("one", "cluster-1", nodeSelector=NODE2), uplink),
    ):
        assert check_request(asked, seen).message == ""


@pytest.mark.parametrize(
    "present",
    [machine("web", "other/net"), machine("web", "net", namespace="shop"), machine("web")],
    ids=["another namespace", "of its own namespace", "pod network"],
)
def test_machines_that_name_other_networks_do_not_count(present: Raw) -> None:
    """A VirtualMachine whose networks are others, also of the same name elsewhere, hinders no deletion."""
    assert check_request(request(NADS, None, network(mode="")), world(present)).message == ""


def test_a_stopped_machine_leaves_the_rest_free() -> None:
    """A VirtualMachine that does not run hinders neither edits of its network nor changes of uplinks."""
    uplink = vlan_config("one", "cluster-1")
    seen = world(network(), machine("web", "net"))
    for asked in (request(NADS, network(mode="", vid=2013), network()), request(VLAN_CONFIGS, None, uplink)):
        assert check_request(asked, seen).message == ""


def test_the_uplink_of_the_installer_needs_no_vlan_config() -> None:
    """The VlanConfig that Harvester's controller left for mgmt can be deleted, whatever runs on mgmt."""
    left = vlan_config("mgmt-vlanconfig-node1", "mgmt")
    seen = world(nad("net", "mgmt", 2012), vm("web", "net"))
    assert check_request(request(VLAN_CONFIGS, None, left), seen).message == ""


def test_isolated_networks_keep_their_own_rules() -> None:
    """The NAD of an isolated network goes as that says, whatever names it."""
    isolated = network(mode="")
    isolated["metadata"]["labels"][UID_LABEL] = "0b2f6d4e"
    assert check_request(request(NADS, None, isolated), world(machine("web", "net"))).message == ""


def test_a_vm_that_is_being_moved_needs_both_nodes() -> None:
    """While a VM migrates, the node that it goes to keeps its uplink too; a migration that is over counts no more."""
    moving = vm("web", "net")
    moving["status"]["migrationState"] = {"targetNode": "node2"}
    narrowed = request(
        VLAN_CONFIGS, vlan_config("one", "cluster-1", nodeSelector=NODE1), vlan_config("one", "cluster-1")
    )
    assert "node2 would lose" in check_request(narrowed, world(network(), moving)).message
    moving["status"]["migrationState"]["completed"] = True
    assert check_request(narrowed, world(network(), moving)).message == ""


def test_more_vlan_ids_on_a_trunk_are_fine() -> None:
    """A trunk that VMs use can get more VLAN ids."""
    wider = nad("net", "cluster-1", config={"vlanTrunk": [{"minID": 5, "maxID": 30}]})
    asked = request(NADS, wider, nad("net", "cluster-1", config=TRUNK))
    assert check_request(asked, world(vm("web", "net"))).message == ""


def test_an_uplink_grows_under_vms() -> None:
    """More nodes, or other attributes, of an uplink under VMs are fine."""
    old = vlan_config("one", "cluster-1", nodeSelector=NODE1)
    for new in (
        vlan_config("one", "cluster-1"),
        vlan_config("one", "cluster-1", nodeSelector=NODE1, uplink={"linkAttributes": {"mtu": 9000}}),
    ):
        assert check_request(request(VLAN_CONFIGS, new, old), overlay_world()).message == ""


def test_a_message_names_ten_vms() -> None:
    """A message about many VMs stays readable: it names ten and tells the number of the others."""
    seen = world(*(vm(f"vm{number:03}", "net") for number in range(100)))
    message = check_request(request(NADS, None, network(mode="")), seen).message
    assert "default/vm009 and 90 more use it" in message


def test_a_node_that_left_has_no_say() -> None:
    """A VM that is still recorded on a node that left hinders no change of uplinks."""
    seen = world(network(), vm("web", "net", node="node9"), node("node3"))
    asked = request(VLAN_CONFIGS, None, vlan_config("one", "cluster-1"))
    assert check_request(asked, seen).message == ""
