"""Networks with overlapping subnets on one wire, and addresses that others have there."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from tests.features.ipam.admission.cases import Case, Cases, answer, each
from tests.features.ipam.admission.requests import (
    Present,
    Raw,
    holding,
    network,
    nic,
    verdict_of,
    with_status,
)
from tests.harness.admission import request


def lan(name: str, network: str, vlan: int = 150, *, bridge: str = "cluster-1-br") -> Raw:
    """A NAD whose pods get addresses of a network."""
    ipam = {"type": "lanloom-ipam", "network": network}
    config = {
        "cniVersion": "1.0.0",
        "name": name,
        "type": "bridge",
        "bridge": bridge,
        "vlan": vlan,
        "ipam": ipam,
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"config": json.dumps(config)}}


def pooled(name: str, cidr: str, *pools: str, **more: Any) -> Raw:
    """A network with a subnet with these pools."""
    return network(name, {"cidr": cidr, "pools": [{"range": item, **more} for item in pools]})


WHOLE = pooled("whole", "10.50.0.0/24", "10.50.0.0/24")
SECOND = pooled("second", "10.50.0.0/24", "10.50.0.0/24")
UPPER = pooled("upper", "10.50.0.0/24", "10.50.0.128/25")
LOWER = pooled("lower", "10.50.0.0/24", "10.50.0.0-10.50.0.127")
DISABLED = pooled("disabled", "10.50.0.0/24", "10.50.0.0/24", disabled=True)
APART = pooled("apart", "10.51.0.0/24", "10.51.0.0/24")
REMEDY = "use one Network for both, pools that don't overlap (or a disabled one), or another VLAN"
WARNING = "NICs of one get no address that the other's have"

NETS: tuple[Present, ...] = ((NETWORKS, WHOLE), (NETWORKS, SECOND))
BOTH: tuple[Present, ...] = ((NETWORKS, WHOLE), (NETWORKS, SECOND), (NADS, lan("a", "whole")))
IN_USE = {"ip": "192.0.2.50", "by": "the gateway", "of": "NetworkAttachmentDefinition default/lan"}
FOREIGN = {"ip": "192.0.2.50", "by": "the gateway", "of": "NetworkAttachmentDefinition other/lan"}

UPLINK = {"clusterNetwork": "cluster-1", "vlan": 150}


def called(title: str, name: str) -> Raw:
    """The second network under another name."""
    return {**SECOND, "metadata": {"name": title}, "spec": {**SECOND["spec"], "name": name}}


def vxlan(
    uplink: Raw | None = None, spokes: Sequence[str] = ("a",), *, subnet: str = "", network: str = ""
) -> Raw:
    """A LAN, perhaps joined to a VLAN, perhaps with a subnet of its own, for which it has a network."""
    spec: Raw = {"ns": "blue", "bridge": "br0", "vxlan": "vx0", "vni": 222, "defaultVxlanDev": "eth0"}
    spec |= {"spokes": [*spokes], **({"uplink": uplink} if uplink else {})}
    spec |= {"subnets": [{"cidr": subnet}]} if subnet else {}
    status = {"status": {"network": network}} if network else {}
    return {"metadata": {"name": "blue", "namespace": "default"}, "spec": spec, **status}


def spoke(name: str, network: str) -> Raw:
    """The NAD of a spoke whose pods get addresses of a network."""
    ipam = {"type": "lanloom-ipam", "network": network}
    config = {"cniVersion": "1.0.0", "name": name, "type": "k8slanveth", "veth": name, "ipam": ipam}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"config": json.dumps(config)}}


SPOKES: tuple[Present, ...] = (
    (NETWORKS, WHOLE),
    (NETWORKS, SECOND),
    (NADS, lan("vlan150", "whole")),
    (NADS, spoke("a", "second")),
)

WIRE_CASES: Cases = {
    "pools of two networks don't overlap on one wire": Case(
        request(NADS, lan("b", "second")),
        BOTH,
        "NetworkAttachmentDefinition default/b: spec.config: pools of Networks second and whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.255; {REMEDY}",
    ),
    "a network gets no pool over one of another network on its wire": Case(
        request(NETWORKS, SECOND, old=pooled("second", "10.50.0.0/24")),
        (
            (NETWORKS, WHOLE),
            (NETWORKS, pooled("second", "10.50.0.0/24")),
            (NADS, lan("a", "whole")),
            (NADS, lan("b", "second")),
        ),
        "Network second: spec.subnets: pools of Networks second and whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.255; {REMEDY}",
    ),
    "a network gets no name by which NADs bring it to the wire of an overlapping one": Case(
        request(NETWORKS, called("second", "shop"), old=SECOND),
        ((NETWORKS, WHOLE), (NETWORKS, SECOND), (NADS, lan("a", "whole")), (NADS, lan("b", "shop"))),
        "Network second: spec.name: pools of Networks second and whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.255; {REMEDY}",
    ),
    "a LAN joins no VLAN on which a network overlaps one of its spokes'": Case(
        request(LANS, vxlan(UPLINK), old=vxlan()),
        (*SPOKES, (LANS, vxlan())),
        "LAN default/blue: spec.uplink: pools of Networks second and whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.255; {REMEDY}",
    ),
    "a LAN has no subnet over a pool of another network on its wire": Case(
        request(LANS, vxlan(UPLINK, subnet="10.50.0.0/25")),
        ((NETWORKS, WHOLE), (NADS, lan("v", "whole"))),
        "LAN default/blue: spec.subnets: pools of this LAN and of Network whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.127; {REMEDY}",
    ),
    "a LAN gets no spoke whose network overlaps another one's on its wire": Case(
        request(LANS, vxlan(UPLINK, spokes=["a", "b"]), old=vxlan(UPLINK, spokes=["b"])),
        (*SPOKES, (LANS, vxlan(UPLINK, spokes=["b"]))),
        "LAN default/blue: spec.spokes: pools of Networks second and whole overlap on "
        f"VLAN 150 of cluster network cluster-1, in 10.50.0.0-10.50.0.255; {REMEDY}",
    ),
    "an address that something on the wire has is taken by force only": Case(
        request(NICS, nic("web-0", "192.0.2.50")),
        ((NETWORKS, with_status(network(), inUse=[IN_USE])),),
        "Nic default/web-0: spec.ips[0]: IP 192.0.2.50 of network net1 is the gateway (NetworkAttachmentDefinition "
        "default/lan); choose another one, or set spec.force",
    ),
    "an object of another namespace that has an address is not named": Case(
        request(NICS, nic("web-0", "192.0.2.50")),
        ((NETWORKS, with_status(network(), inUse=[FOREIGN])),),
        "Nic default/web-0: spec.ips[0]: IP 192.0.2.50 of network net1 is the gateway (a NetworkAttachmentDefinition "
        "of another namespace); choose another one, or set spec.force",
    ),
    "an address that another network on the wire gave is taken by force only": Case(
        request(NICS, nic("web-0", "192.0.2.50")),
        (
            (NETWORKS, with_status(network(), sharedWith=["net2"])),
            (NETWORKS, network("net2")),
            (NICS, holding("theirs", "192.0.2.50", network="net2")),
        ),
        "Nic default/web-0: spec.ips[0]: IP 192.0.2.50 of network net1 is used in network net2 by NIC default/theirs; "
        "choose another one, or set spec.force",
    ),
}


@each(WIRE_CASES)
def test_networks_and_others_on_a_wire(case: Case) -> None:
    """The message names the object, who has the address, and the remedy."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    ("other", "nad", "warned"),
    [
        pytest.param(UPPER, lan("b", "upper"), "", id="alone"),
        pytest.param(UPPER, lan("b", "lower"), "10.50.0.0-10.50.0.255", id="pools apart"),
        pytest.param(DISABLED, lan("b", "lower"), "10.50.0.0-10.50.0.255", id="a disabled pool"),
        pytest.param(WHOLE, lan("b", "lower", 151), "", id="another VLAN"),
        pytest.param(WHOLE, lan("b", "lower", bridge="other-br"), "", id="another bridge"),
        pytest.param(APART, lan("b", "lower"), "", id="subnets apart"),
        pytest.param(WHOLE, lan("b", "missing"), "", id="a network that is not there"),
    ],
)
def test_overlapping_subnets_are_a_warning(other: Raw, nad: Raw, warned: str) -> None:
    """A NAD is allowed where pools don't overlap, with a warning where subnets do on its wire."""
    name = other["metadata"]["name"]
    present: tuple[Present, ...] = ((NETWORKS, LOWER), (NETWORKS, other), (NADS, lan("a", name)))
    verdict = verdict_of(request(NADS, nad), *present)
    assert verdict.allowed, verdict.message
    expected = (
        f"NetworkAttachmentDefinition default/b: spec.config: subnets of Networks lower and {name} overlap on VLAN 150 "
        f"of cluster network cluster-1, in {warned}; {WARNING}"
    )
    assert verdict.warnings == ((expected,) if warned else ())


def macvlan(master: str) -> Raw:
    """A NAD at a link of the nodes, whose pods get addresses of the second network."""
    ipam = {"type": "lanloom-ipam", "network": "second"}
    config = {"cniVersion": "1.0.0", "name": "m", "type": "macvlan", "master": master, "ipam": ipam}
    return {"metadata": {"name": "m", "namespace": "default"}, "spec": {"config": json.dumps(config)}}


@pytest.mark.parametrize(
    ("master", "meets"), [("cluster-1-br.150", True), ("cluster-1-br.151", False), ("eth0.150", False)]
)
def test_a_sub_interface_is_on_the_vlan_of_its_bridge(master: str, meets: bool) -> None:
    """What is at a sub-interface of a bridge meets what is in that VLAN of the bridge."""
    verdict = verdict_of(request(NADS, macvlan(master)), *NETS, (NADS, lan("a", "whole")))
    assert ("overlap on VLAN 150 of cluster network cluster-1" in verdict.message) == meets
    assert verdict.allowed != meets


@pytest.mark.parametrize(
    ("new", "old", "present"),
    [
        pytest.param(vxlan(UPLINK), None, ((NETWORKS, SECOND), (NADS, spoke("a", "second"))), id="alone"),
        pytest.param(
            vxlan(UPLINK | {"vlan": 151}, ["a", "b"]),
            vxlan(None, ["a", "b"]),
            (*NETS, (NADS, spoke("a", "second")), (NADS, spoke("b", "whole"))),
            id="together before",
        ),
        pytest.param(vxlan(UPLINK | {"vlan": 151}), vxlan(), SPOKES, id="another VLAN"),
        pytest.param(vxlan(UPLINK), vxlan(UPLINK), SPOKES, id="there before"),
    ],
)
def test_a_lan_that_brings_nothing_together(new: Raw, old: Raw | None, present: tuple[Present, ...]) -> None:
    """A LAN may join a VLAN on which its networks meet no others that they did not meet before."""
    there: tuple[Present, ...] = () if old is None else ((LANS, old),)
    verdict = verdict_of(request(LANS, new, old=old), *present, *there)
    assert verdict.allowed, verdict.message


ON_VLAN: tuple[Present, ...] = ((NETWORKS, WHOLE), (NADS, lan("v", "whole")))


@pytest.mark.parametrize(
    ("new", "old", "meets"),
    [
        pytest.param(vxlan(UPLINK, subnet="10.50.0.0/25"), None, True, id="created"),
        pytest.param(
            vxlan(UPLINK, subnet="10.50.0.0/25"), vxlan(subnet="10.50.0.0/25"), True, id="joins a VLAN"
        ),
        pytest.param(
            vxlan(UPLINK, subnet="10.50.0.0/25"), vxlan(UPLINK, subnet="10.60.0.0/25"), True, id="changed"
        ),
        pytest.param(
            vxlan(UPLINK, ["a", "b"], subnet="10.50.0.0/25"),
            vxlan(UPLINK, subnet="10.50.0.0/25"),
            False,
            id="there before",
        ),
        pytest.param(
            vxlan(UPLINK, subnet="10.50.0.0/24", network="whole"),
            vxlan(UPLINK, subnet="10.50.0.0/25", network="whole"),
            False,
            id="its own network",
        ),
        pytest.param(vxlan(UPLINK, subnet="10.60.0.0/24"), None, False, id="apart"),
        pytest.param(vxlan(subnet="10.50.0.0/24"), None, False, id="no uplink"),
        pytest.param(vxlan(UPLINK, subnet="nonsense"), None, False, id="not a subnet"),
    ],
)
def test_the_subnets_of_a_lan(new: Raw, old: Raw | None, meets: bool) -> None:
    """A LAN's own subnets overlap no pool on its wire, also before it has spokes with a network, or the network."""
    there: tuple[Present, ...] = () if old is None else ((LANS, old),)
    verdict = verdict_of(request(LANS, new, old=old), *ON_VLAN, *there)
    assert verdict.allowed != meets
    assert verdict.warnings == ()


def test_a_lan_before_its_networks_meet() -> None:
    """Subnets without pools that overlap are a warning at the LAN, too."""
    bare = pooled("second", "10.50.0.0/24")
    present = ((NETWORKS, WHOLE), (NETWORKS, bare), *SPOKES[2:])
    (warning,) = verdict_of(request(LANS, vxlan(UPLINK)), *present).warnings
    assert warning.startswith("LAN default/blue: spec.uplink: subnets of Networks second and whole overlap")


def test_what_is_there_may_be_edited() -> None:
    """An edit that brings nothing to a wire passes, however networks overlap there."""
    new, old = lan("b", "second"), lan("b", "second")
    new["metadata"]["annotations"] = {"note": "moved"}
    assert verdict_of(request(NADS, new, old=old), *BOTH, (NADS, old)).allowed
    renamed = {**SECOND, "spec": {**SECOND["spec"], "tags": ["x"]}}
    assert verdict_of(request(NETWORKS, renamed, old=SECOND), *BOTH, (NADS, old)).allowed


def test_a_refusal_rests_on_live_objects() -> None:
    """A NAD that went, and that the watch still has, is no reason to refuse."""
    asked = request(NADS, lan("b", "second"))
    assert verdict_of(asked, (NETWORKS, WHOLE), (NETWORKS, SECOND), seen=BOTH).allowed


def stored(body: Raw) -> Raw:
    """An object as the API server sends it in the request for a change: in a version as new as any."""
    return {**body, "metadata": {**body["metadata"], "resourceVersion": "1000"}}


BARE = pooled("second", "10.50.0.0/24")
ON_WIRE: tuple[Present, ...] = ((NETWORKS, WHOLE), (NETWORKS, BARE), (NADS, lan("b", "second")))
PAIRS: dict[str, tuple[AdmissionRequest, AdmissionRequest, tuple[Present, ...]]] = {
    "two NADs": (request(NADS, lan("a", "whole")), request(NADS, lan("b", "second")), NETS),
    "a NAD that moves": (
        request(NADS, lan("a", "whole"), old=stored(lan("a", "whole", 151))),
        request(NADS, lan("b", "second")),
        (*NETS, (NADS, lan("a", "whole", 151))),
    ),
    "a NAD, then a pool": (
        request(NADS, lan("a", "whole")),
        request(NETWORKS, SECOND, old=stored(BARE)),
        ON_WIRE,
    ),
    "a network, then its NAD": (
        request(NETWORKS, SECOND),
        request(NADS, lan("b", "second")),
        ((NETWORKS, WHOLE), (NADS, lan("a", "whole"))),
    ),
    "a pool, then a NAD": (
        request(NETWORKS, SECOND, old=stored(BARE)),
        request(NADS, lan("a", "whole")),
        ON_WIRE,
    ),
}


@pytest.mark.parametrize(("first", "second", "present"), PAIRS.values(), ids=PAIRS)
def test_what_was_allowed_a_moment_ago_counts(
    first: AdmissionRequest, second: AdmissionRequest, present: tuple[Present, ...]
) -> None:
    """Of two changes that exclude each other the second is refused, although nothing has stored the first yet."""
    assert verdict_of(second, *present).allowed
    assert "overlap on VLAN 150" in verdict_of(second, *present, before=(first,)).message
    assert verdict_of(second, *present, before=(replace(first, dry_run=True),)).allowed


def test_what_was_refused_a_moment_ago_does_not_count() -> None:
    """A change that was refused excludes no other."""
    third = pooled("third", "10.50.0.0/24", "10.50.0.0/25")
    refused = request(NETWORKS, third, old=stored(pooled("third", "10.50.0.0/24")))
    present = (
        *NETS,
        (NETWORKS, pooled("third", "10.50.0.0/24")),
        (NADS, lan("a", "whole", 151)),
        (NADS, lan("c", "third", 151)),
    )
    on_third = request(NADS, lan("d", "third"))
    assert "third and whole" in verdict_of(refused, *present).message
    assert verdict_of(request(NADS, lan("e", "second")), *present, before=(on_third, refused)).allowed


def test_force_takes_what_somebody_has() -> None:
    """With force, the address is allowed."""
    present = (NETWORKS, with_status(network(), inUse=[IN_USE]))
    assert verdict_of(request(NICS, nic("web-0", "192.0.2.50", force=True)), present).allowed
