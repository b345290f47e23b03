"""What the allocator has answered to what a NIC asks for, told by its status. Commands need that, not the allocator."""

from lanloom.api.ipam import ALLOCATED, Nic
from lanloom.ipam.rules.addresses import find_address
from lanloom.kube.conditions import find


def is_satisfied(nic: Nic) -> bool:
    """Whether a NIC's status says that it has what its spec asks for, and that is so."""
    spec, status = nic.spec, nic.status
    return (
        _answer(nic) == "True"
        and status.network == spec.network
        and len(status.ips) == len(spec.ips)
        and all(_fits(asked, has) for asked, has in zip(spec.ips, status.ips, strict=True))
    )


def is_refused(nic: Nic) -> bool:
    """Whether a NIC has been told that it does not get what it asks for now."""
    return _answer(nic) == "False"


def _answer(nic: Nic) -> str:
    """The answer to what is asked for now; empty if there is none yet."""
    found = find(nic.status.conditions, ALLOCATED)
    current = nic.status.observed_generation == nic.metadata.generation
    return found.status if found is not None and current else ""


def _fits(asked: str, has: str) -> bool:
    wanted = find_address(asked)
    return wanted is None or wanted == find_address(has)
