"""What is said of an allowed request that takes something away."""

import pytest
from msgspec import Struct

from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.rules.admit.losses import losses
from lanloom.nads.references import User
from tests.features.vlan.admission.requests import Raw, network, report, world
from tests.features.vlan.cluster import vlan_config
from tests.harness.admission import request

NET = "NetworkAttachmentDefinition default/net"
RUNS = "what runs keeps its interface, and can't start again without the NAD"
HOSTNAME = "kubernetes.io/hostname"


class Uses(Struct, frozen=True):
    """Users of NAD default/net, each with its node; empty for one that runs nowhere."""

    users: tuple[tuple[Key, str], ...] = ()

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Those of the NAD."""
        if nad != NET_KEY:
            return ()
        return tuple(
            User("Pod", key.namespace, key.name, nodes=(node,) if node else ()) for key, node in self.users
        )

    def user_of(self, pod: Key) -> User:
        """The pod."""
        return User("Pod", pod.namespace, pod.name)

    def seen(self, uid: str) -> int | None:
        """None."""
        return None


NET_KEY = Key("default", "net")
A, B, OTHER = Key("default", "a"), Key("default", "b"), Key("other", "c")


def addressed(name: str, address: str) -> Raw:
    """The report of a node that has an address of the network."""
    body = report("cluster-1", name)
    interface = {"vlanId": 2012, "name": "c.2012", "network": "default/net", "address": address}
    body["metadata"]["resourceVersion"] = "2"  # later than that of the small cluster
    body["status"]["interfaces"] = [interface | {"state": "Ready"}]
    return body


LEASED = (addressed("node1", "192.0.2.1/24"), addressed("node2", "192.0.2.2/24"))
LOST_BOTH = "192.0.2.1/24 of node1, 192.0.2.2/24 of node2"
ONE = vlan_config("one", "cluster-1")
NARROW = vlan_config("one", "cluster-1", nodeSelector={HOSTNAME: "node1"})
CUT = "and these there all connections over it: "

CASES: dict[str, tuple[Raw | None, Raw, tuple[tuple[Key, str], ...], tuple[str, ...]]] = {
    "a NAD without users": (None, network(mode=""), (), ()),
    "the NAD of a pod": (
        None,
        network(mode=""),
        ((A, "node1"), (B, "")),
        (f"{NET} is used by Pod default/a, Pod default/b; {RUNS}",),
    ),
    "the NAD of a pod of another namespace, which is not named": (
        None,
        network(mode=""),
        ((A, "node1"), (OTHER, "node1")),
        (f"{NET} is used by Pod default/a, 1 of other namespaces; {RUNS}",),
    ),
    "a NAD that gives addresses to nodes": (
        None,
        network(),
        (),
        (f"nodes lose their addresses of {NET}: {LOST_BOTH}",),
    ),
    "a VlanConfig whose nodes have addresses and pods": (
        None,
        ONE,
        ((A, "node1"), (B, "node2"), (OTHER, "")),
        (
            f"nodes lose their addresses on cluster network cluster-1: {LOST_BOTH}",
            f"node1, node2 lose the cluster network cluster-1, {CUT}Pod default/a, Pod default/b",
        ),
    ),
    "a VlanConfig that no longer matches a node": (
        NARROW,
        ONE,
        ((A, "node1"), (B, "node2")),
        (
            "nodes lose their addresses on cluster network cluster-1: 192.0.2.2/24 of node2",
            f"node2 lose the cluster network cluster-1, {CUT}Pod default/b",
        ),
    ),
    "a VlanConfig that matches more nodes": (ONE, NARROW, ((A, "node1"),), ()),
    "another VlanConfig of the same nodes": (
        vlan_config("one", "cluster-1", description="the same"),
        ONE,
        ((A, "node1"),),
        (),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_loses_what(case: str) -> None:
    """A deletion, and an edit that does the same to a node, names addresses and users; others say nothing."""
    new, old, users, wanted = CASES[case]
    kind = VLAN_CONFIGS if old["kind"] == "VlanConfig" else NADS
    reports = () if old == network(mode="") else LEASED
    seen = world(network(), *reports)
    asked = request(kind, new, old)
    assert losses(asked, seen, Uses(users)) == wanted
    verdict = check_request(asked, seen)
    assert verdict.allowed
    assert verdict.warnings == losses(asked, seen, None)
