"""Ways to and from a physical VLAN, and between bridges of an isolated network, by what nodes report."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.lan import HostBridge, SpokeOptions, VlanUplink
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import (
    MULTUS_NETWORKS,
    NETWORK_STATUS,
    NetworkAttachmentDefinition,
    NetworkAttachmentDefinitionSpec,
)
from lanloom.features.lan.trace.facts import Facts, pod_end
from lanloom.features.lan.trace.hops import Hop, stopped_at, trace
from lanloom.features.lan.trace.uplink import uplink_end
from lanloom.refusals import Denied
from tests.features.lan.trace.samples import BLUE, EARLIER, facts, far, node, pod

JOINED = replace(BLUE, spec=replace(BLUE.spec, uplink=VlanUplink(cluster_network="cluster-1", vlan=2012)))


def outside(*, uplink: bool = True, sends: bool = False, **more: Any) -> tuple[Hop, ...]:
    """The hops between the pod on n1 and the VLAN, to which n2 joins the LAN."""
    found = facts(there=far(uplink=uplink), of=more.pop("of", JOINED), **more)
    end = uplink_end(found.lan, found.reports)
    return trace(replace(found, sender=end, receiver=found.sender) if sends else replace(found, receiver=end))


def kinds(hops: tuple[Hop, ...]) -> list[tuple[str, str]]:
    """The nodes and kinds of hops after that of the LAN."""
    return [(hop.node, hop.kind) for hop in hops[1:]]


def test_to_the_vlan() -> None:
    """A frame for the VLAN goes to the node that joins the LAN to it, and the way back is the same."""
    hops = outside()
    assert kinds(hops)[-4:] == [("n2", "vxlan"), ("n2", "bridge"), ("n2", "port"), ("n2", "uplink")]
    assert stopped_at(hops) is None
    assert hops[-1].state == "unknown" and "cluster-1-bo" in hops[-1].reason
    back = outside(sends=True)
    assert kinds(back) == list(reversed(kinds(hops)))
    assert stopped_at(back) is None


def test_no_node_joins() -> None:
    """Without a node that joins the two the frame stops before the VLAN, with what to do."""
    hop = stopped_at(outside(uplink=False))
    assert hop is not None and hop.kind == "uplink"
    assert "no node joins the LAN to it: none has cluster-1-br" in hop.reason
    going = replace(JOINED, metadata=replace(JOINED.metadata, deletion_timestamp=EARLIER))
    hop = stopped_at(outside(uplink=False, of=going))
    assert hop is not None and "the LAN is being deleted" in hop.reason


def test_a_node_that_is_away() -> None:
    """What a node joined that is not Ready is not known, as another one may have taken over."""
    hops = outside(nodes=(node("n1"), node("n2", "False")))
    port = next(hop for hop in hops if (hop.node, hop.kind) == ("n2", "port"))
    assert port.state == "unknown" and "another one may have taken over" in port.reason


def test_no_uplink() -> None:
    """The VLAN is no end of a LAN that is joined to none."""
    with pytest.raises(Denied, match="LAN default/blue is joined to no VLAN; name a spoke or pod, or set"):
        uplink_end(BLUE, {})


def test_options_end_at_the_vlan() -> None:
    """Frames between an isolated spoke and the VLAN pass; a forged one still stops at the sender's port."""
    isolated = replace(JOINED, spec=replace(JOINED.spec, spoke_options={"a": SpokeOptions(isolated=True)}))
    assert stopped_at(outside(of=isolated)) is None


def test_a_limit() -> None:
    """Whether a limited spoke may send from a further address can't be seen, and the metric is named that tells."""
    limited = replace(BLUE, spec=replace(BLUE.spec, spoke_options={"a": SpokeOptions(max_learned_macs=3)}))
    hops = trace(facts(of=limited, source="0e:00:00:00:00:77"))
    port = next(hop for hop in hops if (hop.node, hop.kind) == ("n1", "port"))
    assert port.state == "unknown" and "at most 3 MAC addresses in five minutes" in port.reason
    assert "lanloom_agent_lan_spoke_refused_frames_total" in port.reason
    assert {hop.state for hop in trace(facts(of=limited)) if hop.kind == "port"} == {"ok"}


ISOLATED = replace(
    BLUE, spec=replace(BLUE.spec, spokes=(), host_bridge=HostBridge(name="iso-br", alias="lanloom-dummy u"))
)
CONFIG = {"cniVersion": "0.3.1", "type": "bridge", "bridge": "iso-br"}


def nad(name: str, config: dict[str, str]) -> NetworkAttachmentDefinition:
    """A NAD with this configuration."""
    return NetworkAttachmentDefinition(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=NetworkAttachmentDefinitionSpec(config=json.dumps(config)),
    )


def user(name: str, on: str, network: str = "iso") -> Pod:
    """A pod that names a NAD of its owner's."""
    status = [{"name": f"default/{network}", "interface": "net1", "mac": "02:00:00:00:00:05"}]
    annotations = {MULTUS_NETWORKS: network, NETWORK_STATUS: json.dumps(status)}
    shape = pod(name, "a", on)
    return replace(shape, metadata=replace(shape.metadata, annotations=annotations))


def across(first: str, second: str, **more: Any) -> Facts:
    """Facts of a frame between two pods of the isolated network."""
    found = facts(of=ISOLATED, **more)
    nads = (nad("iso", CONFIG),)
    ends = [pod_end(user(name, on), ISOLATED, (), nads) for name, on in (("p", first), ("q", second))]
    return replace(found, sender=ends[0], receiver=ends[1])


def test_across_host_bridges() -> None:
    """Between two nodes a frame of an isolated network passes their bridges and the LAN."""
    hops = trace(across("n1", "n2"))
    before = ["pod", "interface", "hostbridge", "port", "bridge"]
    assert [hop.kind for hop in hops if hop.node == "n1"] == [*before, "vxlan", "underlay"]
    assert [hop.kind for hop in hops if hop.node == "n2"] == ["underlay", "vxlan", *reversed(before)]
    assert stopped_at(hops) is None


def test_at_one_host_bridge() -> None:
    """On one node the frame does not come into the LAN."""
    hops = trace(across("n1", "n1"))
    assert [hop.kind for hop in hops[1:]] == ["pod", "interface", "hostbridge", "interface", "pod"]
    assert stopped_at(hops) is None


def test_a_node_without_the_lan() -> None:
    """A node whose bridge is joined to no LAN stops the frame, with what is missing."""
    hop = stopped_at(trace(across("n1", "n2", here=None)))
    assert hop is not None and (hop.node, hop.kind) == ("n1", "port")
    assert "it has no bridge iso-br of the isolated network yet, or no agent of LANs" in hop.reason


def test_not_of_the_network() -> None:
    """For a pod at another bridge the hop names the one that it lacks."""
    end = pod_end(user("p", "n1"), ISOLATED, (), (nad("iso", CONFIG | {"bridge": "other"}),))
    assert "names no NAD of the isolated network" in end.elsewhere and "bridge iso-br" in end.elsewhere


def test_a_nad_of_ones_own() -> None:
    """A pod at a NAD of its owner's that names a spoke is at that spoke."""
    config = {"cniVersion": "0.3.1", "type": "k8slanveth", "veth": "a"}
    end = pod_end(user("p", "n1", "mine"), BLUE, (), (nad("mine", config),))
    assert (end.spoke, end.at, end.interface) == ("a", "spoke", "net1")
    assert stopped_at(trace(replace(facts(), sender=end))) is None
