"""What stands in a network's way: an older one with the same NAD or bridge, an uplink, or somebody's addresses.

Admission refuses all of it; this is for what came in while no webhook answered, and for what changed since.
"""

from collections.abc import Iterator

from lanloom.api.dummy import DummyClusterNetwork
from lanloom.dummy.rules.errors import InvalidSpec
from lanloom.dummy.rules.harvester import uplink_fault
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.observed import Observed
from lanloom.dummy.rules.spec import parse
from lanloom.dummy.rules.status import Finding
from lanloom.dummy.rules.subnet import overlaps


def in_the_way(seen: Observed, net: Isolated) -> Finding | None:
    """Why nothing can be made of the network, whatever it was before."""
    for other in _elders(seen):
        if shared := _shared(other, net):
            return Finding(
                "True",
                "Taken",
                f"DummyClusterNetwork {net.name}: {shared} is that of DummyClusterNetwork {other.metadata.name} "
                "already, which is older; delete this one and create one with a NAD and a bridge of its own",
            )
    if fault := uplink_fault(net.bridge, seen.configs):
        return Finding("True", "HasUplink", f"DummyClusterNetwork {net.name}: {fault}")
    return None


def taken_addresses(seen: Observed, net: Isolated) -> Finding | None:
    """Whose addresses the subnet overlaps. A network that is there already goes on, and says so."""
    if net.subnet is None:
        return None
    fault = overlaps(net, seen.ranges, _isolated(seen))
    return Finding("True", "SubnetTaken", f"DummyClusterNetwork {net.name}: {fault}") if fault else None


def _elders(seen: Observed) -> Iterator[DummyClusterNetwork]:
    own = _age(seen.dcn)
    return (other for other in sorted(seen.others, key=_age) if _age(other) < own)


def _age(dcn: DummyClusterNetwork) -> tuple[str, str]:
    """What orders networks by age: RFC 3339 in UTC sorts as text, and uids decide among those of one second."""
    return dcn.metadata.creation_timestamp or "", dcn.metadata.uid


def _shared(other: DummyClusterNetwork, net: Isolated) -> str:
    if other.spec.nad == net.nad:
        return f"the NAD {net.nad} (spec.nadNamespace, spec.nadName)"
    return f"the bridge {net.bridge} (spec.bridgeName)" if other.spec.bridge_name == net.bridge else ""


def _isolated(seen: Observed) -> Iterator[Isolated]:
    for other in _elders(seen):
        if other.spec.gateway == "none":
            continue
        try:
            yield parse(other)
        except InvalidSpec:
            continue
