"""Node addresses on uplinks that Harvester's controller made, on a real kernel with a real NetworkManager.

The links are made as that controller makes them, with the VLAN's id on the uplink; its service account stands for it.
"""

from collections.abc import Iterator

import pytest

from lanloom.api import names
from lanloom.features.vlan.rules.names import interface_name, profile_file
from tests.lab.driver import Lab, eventually
from tests.lab.looks import look, report
from tests.lab.objects import cluster_network, vlan_config, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK = interface_name("hci", 2012)
ADDRESS = "192.168.1.10/24"

BUILD = """
ip link add hci-bo type bond mode active-backup miimon 100
ip link set eth1 down
ip link set eth1 master hci-bo
ip link add hci-br type bridge vlan_filtering 1
ip link set hci-bo master hci-br
ip link set eth1 up
ip link set hci-bo up
ip link set hci-br up
bridge vlan add vid 2012 dev hci-bo
"""
BY_HAND = """
ip link add link hci-br name hci-br.36 type vlan id 36
ip address add 10.36.0.1/24 dev hci-br.36
ip link set hci-br.36 up
bridge vlan add vid 36 dev hci-br self
bridge vlan add vid 36 dev hci-bo
"""
ADOPT = "ip link set hci-br alias lanloom && ip link set hci-bo alias lanloom"

ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": names.HARVESTER_ACCOUNT, "namespace": names.HARVESTER_NAMESPACE},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.HARVESTER_NAMESPACE}}


@pytest.fixture
def harvester(clean: Lab) -> Iterator[Lab]:
    """The lab with Harvester's service account, and the cluster network hci on node1."""
    clean.apply(NAMESPACE, ACCOUNT)
    try:
        clean.on("node1", BUILD)
        config = vlan_config("hci", "hci", node="node1")
        config["metadata"]["annotations"] = {names.MATCHED_NODES: '["node1"]'}
        clean.apply(cluster_network("hci"), config)
        eventually(lambda: mode(clean) == "beside")
        yield clean
    finally:
        clean.kubectl("delete", "namespace", names.HARVESTER_NAMESPACE)
        eventually(lambda: mode(clean) != "beside", timeout=120)
        clean.on("node1", f"ip link show hci-br && {ADOPT}", status=None)


def mode(lab: Lab) -> str:
    """In which mode node1 carries hci."""
    return str(report(lab, "hci", "node1").get("mode", ""))


def ready(lab: Lab) -> bool:
    """Whether node1 reports that uplink and addresses work."""
    conditions = report(lab, "hci", "node1").get("conditions", ())
    return len(conditions) == 2 and all(item["status"] == "True" for item in conditions)


def test_beside_harvester_and_then_alone(harvester: Lab) -> None:
    """Addresses come and go on Harvester's bridge, which stays; so it does alone until an operator marks it, and then.

    What an administrator put on the bridge outlives all of it, with its VLAN id on bridge and uplink.
    """
    harvester.on("node1", BY_HAND)
    before = look(harvester, "node1")
    eventually(lambda: ready(harvester))
    network = vm_network("vlan2012", "hci", 2012, "static", {"node1": ADDRESS})
    harvester.apply(network)
    eventually(lambda: ready(harvester) and look(harvester, "node1").address(LINK) == ADDRESS)
    eventually(lambda: harvester.reaches("node1", "192.168.1.1"))
    seen = look(harvester, "node1")
    assert 2012 in seen.ids["hci-br"]
    for name in ("hci-br", "hci-bo", "eth1"):
        kept = {key: seen.links[name].get(key) for key in ("ifindex", "master", "mtu", "ifalias")}
        assert kept == {key: before.links[name].get(key) for key in kept}
    harvester.kubectl("delete", "network-attachment-definitions", "vlan2012")
    eventually(lambda: LINK not in look(harvester, "node1").links)
    seen = look(harvester, "node1")
    assert (2012 in seen.ids["hci-br"], 2012 in seen.ids["hci-bo"]) == (False, True)
    assert profile_file("hci", 2012) not in seen.profiles
    harvester.apply(network)
    eventually(lambda: look(harvester, "node1").address(LINK) == ADDRESS)
    harvester.kubectl("delete", "serviceaccount", names.HARVESTER_ACCOUNT, "-n", names.HARVESTER_NAMESPACE)
    eventually(lambda: mode(harvester) == "alone" and not ready(harvester), timeout=120)
    assert look(harvester, "node1").address(LINK) == ADDRESS
    harvester.on("node1", ADOPT)
    eventually(lambda: ready(harvester))
    seen = look(harvester, "node1")
    assert (seen.address(LINK), seen.links["hci-br"]["ifindex"]) == (
        ADDRESS,
        before.links["hci-br"]["ifindex"],
    )
    harvester.on("node1", "ip link set hci-bo nomaster")
    eventually(lambda: look(harvester, "node1").links["hci-bo"].get("master") == "hci-br")
    eventually(lambda: harvester.reaches("node1", "192.168.1.1"))
    seen = look(harvester, "node1")
    assert seen.links["hci-br.36"]["ifindex"] == before.links["hci-br.36"]["ifindex"]
    assert (seen.address("hci-br.36"), 36 in seen.ids["hci-br"]) == ("10.36.0.1/24", True)
    harvester.on("node1", "ip link delete hci-br.36")
