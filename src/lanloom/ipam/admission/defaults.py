"""What the mutating webhook fills in: UUIDs of subnets, the finalizer of NICs, and the normal form of what has one."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from lanloom.api.admission import Raw, Verdict
from lanloom.api.ipam import FINALIZER, Network, Nic, SubnetSpec
from lanloom.ipam.admission.networks import check_size
from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.model import Network as NetworkModel
from lanloom.ipam.rules.ranges import overlapping, parse_cidr, parse_range
from lanloom.ipam.rules.validate import with_uuids
from lanloom.ipam.wire import network_of


def network_defaults(new: Network, old: Network | None, new_uuid: Callable[[], str]) -> Verdict:
    """The changes of a network's spec, with a warning where something meant another thing. Raises Malformed."""
    check_size(new)
    wanted = with_uuids(_model_of(old), network_of(new), new_uuid)
    patch: list[Raw] = []
    for index, (spec, subnet) in enumerate(zip(new.spec.subnets, wanted.subnets, strict=True)):
        path = f"/spec/subnets/{index}"
        if not spec.uuid:
            patch.append({"op": "add", "path": f"{path}/uuid", "value": subnet.uuid})
        if spec.cidr != str(subnet.cidr):
            patch.append({"op": "replace", "path": f"{path}/cidr", "value": str(subnet.cidr)})
        if _overlap(spec):
            external = [str(item) for item in subnet.external]
            patch.append({"op": "replace", "path": f"{path}/external", "value": external})
    return Verdict(patch=tuple(patch), warnings=tuple(_warnings(new)))


def nic_defaults(nic: Nic) -> Verdict:
    """A new NIC is held from its very beginning."""
    finalizers = nic.metadata.finalizers
    if FINALIZER in finalizers:
        return Verdict()
    value = [*finalizers, FINALIZER]
    return Verdict(patch=({"op": "add", "path": "/metadata/finalizers", "value": value},))


def _model_of(network: Network | None) -> NetworkModel | None:
    if network is not None:
        with suppress(Malformed):
            return network_of(network)
    return None


def _warnings(network: Network) -> Iterator[str]:
    for index, spec in enumerate(network.spec.subnets):
        cidr, had_host_bits = parse_cidr(spec.cidr)
        if had_host_bits:
            yield f"spec.subnets[{index}].cidr: {spec.cidr} has host bits; it was taken as {cidr}"
        if _overlap(spec):
            yield f"spec.subnets[{index}].external: ranges overlap; each address was taken once"


def _overlap(spec: SubnetSpec) -> bool:
    """Whether the externally reserved ranges, which can be read, overlap."""
    return any(overlapping(map(parse_range, spec.external)))
