"""What only one LAN of a cluster may have: its namespace on the nodes, its spokes, and its VNI at a port.

The webhook refuses a second claim. Two that were let in at once, by two replicas, are settled by age: the older LAN
has what both claim. The younger one gets no NADs until the claim is its own. A NAD of its users may name its spokes
all the same, so nodes begin to carry no LAN that would be one network with an older one.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lanloom.api.lan import LAN
from lanloom.features.lan.rules.spec import faults, title_beside, title_of
from lanloom.refusals import Denied
from lanloom.text import listed, quote


def identity_claims(lan: LAN) -> tuple[str, str]:
    """Return those of them with which two LANs would be one network."""
    return f"ns {lan.spec.ns}", f"vni {lan.spec.vni} {lan.spec.vxlan_port}"


def claims_of(lan: LAN) -> Iterator[str]:
    """Yield the claims of a LAN as values of an index: two LANs with a common value stand against each other."""
    spec = lan.spec
    yield from identity_claims(lan)
    for spoke in spec.spokes:
        yield f"spoke {spoke}"
    if spec.uplink is not None:
        yield f"uplink {spec.uplink.cluster_network} {spec.uplink.vlan}"


class ClaimConflict(NamedTuple):
    """What a LAN claims that is another one's, with the field, for its users, and what to do instead."""

    fault: str
    remedy: str = "names must be unique in the cluster; choose another"

    def __str__(self) -> str:
        return f"{self.fault}; {self.remedy}"


def clash(lan: LAN, other: LAN) -> ClaimConflict | None:
    """Return what `lan` claims that is the other one's; None if nothing is."""
    mine, theirs, title = lan.spec, other.spec, title_beside(other, lan.metadata.namespace)
    if mine.ns == theirs.ns:
        return ClaimConflict(f"spec.ns: {quote(mine.ns)} is the network namespace of {title} already")
    if (mine.vni, mine.vxlan_port) == (theirs.vni, theirs.vxlan_port):
        return ClaimConflict(
            f"spec.vni: {mine.vni} at port {mine.vxlan_port} is the VNI of {title} already",
            "two LANs with one VNI would be one network; choose another VNI",
        )
    if mine.uplink is not None and mine.uplink == theirs.uplink:
        return _shared_vlan(lan, other, title)
    if common := frozenset(mine.spokes) & frozenset(theirs.spokes):
        names = listed(quote(name) for name in sorted(common))
        return ClaimConflict(f"spec.spokes: {names} is the name of a spoke of {title} already")
    return None


def _shared_vlan(lan: LAN, other: LAN, title: str) -> ClaimConflict:
    """Describe the conflict of two LANs at one VLAN: users of one would reach those of the other."""
    uplink, own = lan.spec.uplink, lan.metadata.namespace
    assert uplink is not None
    vlan = f"VLAN {uplink.vlan} of cluster network {uplink.cluster_network}"
    fault = f"spec.uplink: {vlan} is the uplink of {title} already, and one LAN has a VLAN"
    if other.metadata.namespace == own:
        instead = f"to be on that VLAN, use spokes of {title}: add them to its spec.spokes"
    elif other.admits(own):
        instead = f"to be on that VLAN, use spokes of {title}, which admits namespace {own}"
    else:
        instead = f"to be on that VLAN, use spokes of that LAN, after its managers added {own} to its spec.namespaces"
    return ClaimConflict(fault, f"{instead}; or leave spec.uplink out")


def check_claims(new: LAN, others: Iterable[LAN]) -> None:
    """Raise Denied where another LAN has what the new one claims."""
    for other in others:
        if other.metadata.key == new.metadata.key:
            continue
        if found := clash(new, other):
            remedy = "wait until that one is gone" if other.metadata.is_deleting else found.remedy
            raise Denied(f"{title_of(new)}: {found.fault}; {remedy}")


def age_of(lan: LAN) -> tuple[str, str, str]:
    """Return the key by which LANs are ordered: the oldest first."""
    meta = lan.metadata
    return meta.creation_timestamp or "", meta.uid, str(meta.key)


def lost_claim(lan: LAN, others: Iterable[LAN]) -> str:
    """Return why a LAN is built nowhere: an older, valid LAN has what it claims. Empty if none has.

    `others` may contain the LAN itself, and more than those that claim the same.
    """
    older = [
        other for other in others if other.metadata.uid != lan.metadata.uid and age_of(other) < age_of(lan)
    ]
    valid = (other for other in sorted(older, key=age_of) if not faults(other.spec))
    return next((str(found) for other in valid if (found := clash(lan, other))), "")
