"""Where a frame stops, by what nodes report: each fault at its hop, in its words."""

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from lanloom.api.lan import FORCE_DELETE, Spoke
from lanloom.api.meta import Condition
from lanloom.features.lan.trace.facts import Facts, pod_end, spoke_end
from lanloom.features.lan.trace.hops import Hop, stopped_at, trace
from lanloom.refusals import Denied
from tests.features.lan.samples import lan, lan_node, other
from tests.features.lan.trace.samples import BLUE, EARLIER, facts, far, near, node, pod

BOTH = near(spokes=(Spoke(name="a", mode="veth"), Spoke(name="b", mode="veth")))


def kinds(hops: tuple[Hop, ...]) -> list[tuple[str, str]]:
    """The nodes and kinds of hops."""
    return [(hop.node, hop.kind) for hop in hops]


def test_two_nodes() -> None:
    """Between two nodes a frame passes both bridges, VXLANs and underlays, and the network, which is not seen."""
    hops = trace(facts())
    assert kinds(hops) == [
        ("", "lan"),
        ("n1", "pod"),
        ("n1", "interface"),
        ("n1", "port"),
        ("n1", "bridge"),
        ("n1", "vxlan"),
        ("n1", "underlay"),
        ("", "network"),
        ("n2", "underlay"),
        ("n2", "vxlan"),
        ("n2", "bridge"),
        ("n2", "port"),
        ("n2", "interface"),
        ("n2", "pod"),
    ]
    assert [hop.kind for hop in hops if hop.state != "ok"] == ["network"]
    network = next(hop for hop in hops if hop.kind == "network")
    assert network.reason == (
        "can't be seen from here; on n1: ping 10.0.0.2, and ping -M do -s 1472 10.0.0.2; if only the latter fails, "
        "lower the MTU of the LAN, or raise that of the network; UDP port 4789 must pass"
    )
    assert [hop.number for hop in hops] == list(range(1, 15))
    assert stopped_at(hops) is None


def test_one_node() -> None:
    """On one node a frame goes from port to port of the bridge, whatever the underlay lacks."""
    entry = replace(BOTH, address="", ready=False, message="the underlay link eth0 is not there; add it")
    hops = trace(facts(entry, None, receiver=pod("db", "b", "n1")))
    assert [hop.kind for hop in hops] == [
        "lan",
        "pod",
        "interface",
        "port",
        "bridge",
        "port",
        "interface",
        "pod",
    ]
    assert {hop.state for hop in hops} == {"ok"}


class Case(NamedTuple):
    """Facts with a fault, and where and with which words the frame stops."""

    facts: Facts
    node: str
    kind: str
    words: str


def deleting(*, forced: bool = False) -> Facts:
    """Facts of a LAN that is being deleted; the receiver is not attached."""
    notes = {FORCE_DELETE: "true"} if forced else {}
    meta = replace(BLUE.metadata, deletion_timestamp=EARLIER, annotations=notes)
    return facts(there=None, of=replace(BLUE, metadata=meta))


def refused(reason: str) -> Facts:
    """Facts of a LAN that is not built anywhere."""
    condition = Condition(type="Ready", status="False", reason=reason, message="an older LAN has VNI 7")
    return facts(None, None, of=replace(BLUE, status=replace(BLUE.status, conditions=(condition,))))


RED = other()
IN_RED = pod("db", "x", "n2")
CASES = {
    "pending": Case(
        facts(sender=pod("web", "a", "n1", phase="Pending", waiting="ImagePullBackOff")),
        "n1",
        "pod",
        "Pending, not Running (ImagePullBackOff); see why: kubectl describe pod -n default web",
    ),
    "ended": Case(facts(receiver=pod("db", "b", "n2", phase="Succeeded")), "n2", "pod", "has ended"),
    "unscheduled": Case(
        facts(receiver=pod("db", "b", "", phase="Pending")), "", "pod", "no node was chosen for it yet"
    ),
    "not carried": Case(facts(None), "n1", "port", "n1 does not carry the LAN; is the agent of LANs running"),
    "not attached": Case(
        facts(near(spokes=())), "n1", "port", "the spoke a is not attached as veth on n1; see the Events"
    ),
    "attached in the other mode": Case(
        facts(near(spokes=(Spoke(name="a", mode="macvtap"),))), "n1", "port", "it is attached as macvtap"
    ),
    "attached elsewhere": Case(
        facts(near(spokes=()), far(spokes=(Spoke(name="a", mode="veth"), Spoke(name="b", mode="veth")))),
        "n1",
        "port",
        "it is attached on n2",
    ),
    "receiver not attached": Case(facts(there=far(spokes=())), "n2", "port", "the spoke b is not attached"),
    "receiver not carried": Case(
        facts(there=None), "n1", "vxlan", "n2 does not carry the LAN, so n1 sends nothing there"
    ),
    "not ready": Case(
        facts(near(ready=False, message="can't make the bridge br0: no")),
        "n1",
        "bridge",
        "n1 reports: can't make the bridge br0: no; see the log",
    ),
    "not ready before it had an endpoint": Case(
        facts(near(address="", ready=False, message="can't make the bridge br0: no")),
        "n1",
        "bridge",
        "can't make the bridge",
    ),
    "peer not ready": Case(
        facts(there=far(ready=False, message="a foreign namespace")), "n2", "bridge", "a foreign namespace"
    ),
    "no underlay": Case(
        facts(near(address="", ready=False, message="the underlay link eth0 is not there")),
        "n1",
        "vxlan",
        "n1 has no VXLAN endpoint: the underlay link eth0 is not there",
    ),
    "peer without underlay": Case(
        facts(there=far(address="", ready=False, message="the underlay link eth0 has no IP address")),
        "n2",
        "vxlan",
        "no VXLAN endpoint: the underlay link eth0 has no IP address",
    ),
    "peer left out": Case(
        facts(nodes=(node("n1"), node("n2", "False"))),
        "n1",
        "vxlan",
        "the node n2 has not been Ready for five minutes, so no frames are sent there",
    ),
    "peer gone": Case(facts(nodes=(node("n1"),)), "n1", "vxlan", "the node n2 is gone"),
    "address family": Case(
        facts(near(ready=False, message="no frames reach n2 (2001:db8::2)"), far(address="2001:db8::2")),
        "n1",
        "vxlan",
        "n2 has the endpoint 2001:db8::2 and this node 10.0.0.1: all nodes of a LAN need addresses of one IP",
    ),
    "same address": Case(facts(there=far(address="10.0.0.1")), "n1", "vxlan", "the same endpoint 10.0.0.1"),
    "another VNI": Case(facts(there=far(vni=9)), "n1", "vxlan", "VNI 9 and port 4789 instead of 7 and 4789"),
    "too large": Case(
        facts(size=1451), "n1", "interface", "MTU 1450 on n1, and a packet of 1451 bytes does not fit"
    ),
    "too large for a peer": Case(facts(there=far(mtu=1400), size=1450), "n1", "interface", "MTU 1400"),
    "another LAN": Case(
        facts(of=BLUE, others=(RED,), receiver=IN_RED),
        "n2",
        "interface",
        "Pod default/db is at the spoke x of LAN default/red; no frame passes from one LAN to another",
    ),
    "sender on another LAN": Case(
        facts(others=(RED,), sender=pod("web", "x", "n1")), "n1", "interface", "of LAN default/red"
    ),
    "no LAN": Case(
        facts(sender=pod("web", "x", "n1")),
        "n1",
        "interface",
        'no NAD of LAN default/blue; add "k8slan-veth-a"',
    ),
    "conflict": Case(refused("Conflict"), "", "lan", "Conflict: an older LAN has VNI 7"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_stops(case: Case) -> None:
    """Each fault stops the frame at its hop, with the reason."""
    hop = stopped_at(trace(case.facts))
    assert hop is not None
    assert (hop.node, hop.kind) == (case.node, case.kind)
    assert case.words in hop.reason


def test_one_fault_once() -> None:
    """What hangs on a fault is unknown, so that a fault is reported once."""
    for name in ("not ready", "no underlay", "address family", "too large", "peer left out"):
        assert sum(hop.state == "stops" for hop in trace(CASES[name].facts)) == 1, name


def test_largest_packet() -> None:
    """A packet of exactly the MTU passes."""
    assert stopped_at(trace(facts(size=1450))) is None


def test_deletion() -> None:
    """A LAN that is being deleted carries frames of its users, and says why nothing new is attached."""
    hops = trace(deleting())
    assert hops[0].state == "ok" and "no new one is accepted" in hops[0].reason
    port = next(hop for hop in hops if (hop.node, hop.kind) == ("n2", "port"))
    assert "the LAN is being deleted and accepts no new users" in port.reason
    forced = trace(deleting(forced=True))[0]
    assert forced.state == "ok" and "what is attached stays until it ends" in forced.reason


def test_machine() -> None:
    """The NIC inside a machine can't be seen, and the hop says so."""
    machine = pod("virt-launcher", "b", "n2", mode="macvtap")
    hops = trace(facts(there=far(spokes=(Spoke(name="b", mode="macvtap"),)), receiver=machine))
    inside = next(hop for hop in hops if (hop.node, hop.kind) == ("n2", "interface"))
    assert inside.state == "unknown" and "NIC inside the machine can't be seen" in inside.reason
    assert next(hop.name for hop in hops if (hop.node, hop.kind) == ("n2", "port")) == "bM0"
    assert stopped_at(hops) is None


def test_multus_silent() -> None:
    """Without Multus' word the interface is unknown."""
    hops = trace(facts(sender=pod("web", "a", "n1", reported=False)))
    assert [hop.kind for hop in hops if hop.state == "unknown"] == ["interface", "network"]


def test_multicast() -> None:
    """With multicast, frames go to the group, and the network must carry it."""
    blue = replace(BLUE, spec=replace(BLUE.spec, replication="multicast", vxlan_grp="239.0.0.7"))
    texts = {(hop.node, hop.kind): hop.reason for hop in trace(facts(of=blue))}
    assert "to the group 239.0.0.7" in texts["n1", "vxlan"]
    assert "must carry multicast to 239.0.0.7" in texts["", "network"]


def test_spokes() -> None:
    """A spoke is traced without its pod; one that nothing is attached to stops the frame."""
    reports = (lan_node("n1", near()), lan_node("n2", far()))
    ends = [spoke_end(name, BLUE, reports) for name in BLUE.spec.spokes]
    hops = trace(replace(facts(), sender=ends[0], receiver=ends[1]))
    assert stopped_at(hops) is None
    assert "pod" not in {hop.kind for hop in hops}
    hop = stopped_at(trace(replace(facts(), receiver=spoke_end("b", BLUE, ()))))
    assert hop is not None and hop.reason.startswith("nothing is attached to the spoke b on any node")


def test_ambiguous_ends() -> None:
    """A spoke on two nodes, and a pod at two spokes, can't be an end; the message says what to name."""
    with pytest.raises(Denied, match=r"n1 \(veth\), n2 \(veth\); name the pod"):
        spoke_end("a", BLUE, (lan_node("n1", near()), lan_node("n2", near(address="10.0.0.2"))))
    both = pod("x", "a,k8slan-veth-b", "n1")
    both = replace(
        both,
        metadata=replace(
            both.metadata,
            annotations={"k8s.v1.cni.cncf.io/networks": "k8slan-veth-a, k8slan-veth-b"},
        ),
    )
    with pytest.raises(Denied, match="several spokes of LAN default/blue: a, b; name one of them"):
        pod_end(both, lan(), ())


def test_unreadable_annotation() -> None:
    """An annotation that can't be read is refused by its name."""
    bad = pod("web", "a", "n1")
    bad = replace(bad, metadata=replace(bad.metadata, annotations={"k8s.v1.cni.cncf.io/networks": "[{"}))
    with pytest.raises(Denied, match=r"Pod default/web: the annotation k8s.v1.cni.cncf.io/networks"):
        pod_end(bad, lan(), ())
