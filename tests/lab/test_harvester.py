"""Node addresses on uplinks that Harvester's controller made, on a real kernel with a real NetworkManager.

The links are made as that controller makes them, with the VLAN's id on the uplink; its service account stands for it.
"""

import re
from collections.abc import Iterator

import pytest

from lanloom.api import names
from lanloom.api.harvester import GROUP
from lanloom.features.vlan.rules.names import interface_name, profile_file
from tests.harness.harvester import definitions
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
        clean.lanloom("harvester", "adopt", "--wait", "150")


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


HOST_LINK, HOST_ADDRESS = interface_name("hci", 2013), "192.168.2.10/24"

HOST_NETWORK = f"""
ip link add link hci-br name {HOST_LINK} type vlan id 2013
ip address add {HOST_ADDRESS} dev {HOST_LINK}
ip link set {HOST_LINK} up
bridge vlan add vid 2013 dev hci-br self
bridge vlan add vid 2013 dev hci-bo
"""

PING = """
rm -f /run/pings.{link}
setsid sh -c 'echo $$ >/run/pid.{link}; exec ping -q -i 0.2 -I {link} {gateway} >/run/pings.{link}' >/dev/null 2>&1 &
"""
PINGS = """
kill -INT $(cat /run/pid.{link})
while ! grep transmitted /run/pings.{link}; do sleep 0.1; done
"""


def lost_pings(lab: Lab, link: str) -> int:
    """How many echoes were not answered, but for the one that may be under way; at least some were sent."""
    sent, received = map(
        int, re.findall(r"(\d+) (?:packets transmitted|received)", lab.on("node1", PINGS.format(link=link)))
    )
    assert received > 10
    return max(sent - received - 1, 0)


def finalized(resource: str, name: str, lab: Lab) -> None:
    """Puts a finalizer of Harvester's controller on an object."""
    patch = '{"metadata": {"finalizers": ["wrangler.cattle.io/harvester-network-x-controller"]}}'
    lab.kubectl("patch", resource, name, "--type", "merge", "-p", patch)


def test_adopt_and_hand_over(harvester: Lab) -> None:
    """A cluster goes from Harvester's controller to Lanloom and back: no echo is lost, no link made anew."""
    host_networks = next(
        item for item in definitions() if item["spec"]["names"]["kind"] == "HostNetworkConfig"
    )
    harvester.apply(host_networks)
    harvester.on("node1", HOST_NETWORK)
    spec = {"clusterNetwork": "hci", "vlanID": 2013, "mode": "static", "ips": {"node1": HOST_ADDRESS}}
    storage = {"apiVersion": f"{GROUP}/v1beta1", "kind": "HostNetworkConfig", "metadata": {"name": "storage"}}
    eventually(lambda: ready(harvester))
    harvester.apply(
        {**storage, "spec": spec}, vm_network("vlan2012", "hci", 2012, "static", {"node1": ADDRESS})
    )
    eventually(lambda: ready(harvester) and look(harvester, "node1").address(LINK) == ADDRESS)
    for resource, name in (("vlanconfig", "hci"), ("hostnetworkconfig", "storage"), ("node", "node1")):
        finalized(resource, name, harvester)
    links = ("hci-br", "hci-bo", LINK, HOST_LINK)
    before = {name: look(harvester, "node1").links[name]["ifindex"] for name in links}
    for link, gateway in ((LINK, "192.168.1.1"), (HOST_LINK, "192.168.2.1")):
        harvester.on("node1", PING.format(link=link, gateway=gateway))
    assert "harvester-network-controller.enabled: false" in harvester.lanloom("harvester", "adopt")
    assert "wrangler" in harvester.kubectl("get", "vlanconfig", "hci", "-o", "yaml")
    harvester.kubectl("delete", "serviceaccount", names.HARVESTER_ACCOUNT, "-n", names.HARVESTER_NAMESPACE)
    printed = harvester.lanloom("harvester", "adopt", "--wait", "180")
    assert "Nothing is left to do." in printed
    seen = look(harvester, "node1")
    assert {name: seen.links[name]["ifindex"] for name in links} == before
    assert {seen.links[name].get("ifalias") for name in ("hci-br", "hci-bo")} == {"lanloom"}
    assert profile_file("hci", 2013) in seen.profiles
    assert ready(harvester)
    for resource, name in (("vlanconfig", "hci"), ("node", "node1"), ("net-attach-def", "storage")):
        assert "wrangler" not in harvester.kubectl("get", resource, name, "-o", "yaml")
    harvester.apply(ACCOUNT)
    assert "Nothing is left to do." in harvester.lanloom("harvester", "hand-over", "--wait", "180")
    seen = look(harvester, "node1")
    assert {name: seen.links[name]["ifindex"] for name in links} == before
    assert not any(seen.links[name].get("ifalias") for name in ("hci-br", "hci-bo"))
    assert (seen.address(LINK), seen.address(HOST_LINK)) == (ADDRESS, HOST_ADDRESS)
    assert lost_pings(harvester, LINK) == 0
    assert lost_pings(harvester, HOST_LINK) <= 1  # NetworkManager takes the address away and gives it at once
    harvester.kubectl("delete", "crd", f"hostnetworkconfigs.{GROUP}")
