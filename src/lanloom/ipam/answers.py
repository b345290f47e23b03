"""What the allocator has answered to what a NIC asks for, told by its status. Commands need that, not the allocator."""

from lanloom.api.ipam import ALLOCATED, Nic
from lanloom.ipam.rules.addresses import find_address
from lanloom.kube.conditions import find


def is_satisfied(nic: Nic) -> bool:
    """Whether a NIC's status says that it has what its spec asks for, and that is so."""
    spec, status = nic.spec, nic.status
    return (
        answer(nic) == "True"
        and status.network == spec.network
        and len(status.ips) == len(spec.ips)
        and all(_fits(asked, has) for asked, has in zip(spec.ips, status.ips, strict=True))
    )


def is_refused(nic: Nic) -> bool:
    """Whether a NIC has been told that it does not get what it asks for now."""
    return answer(nic) == "False"


def answer(nic: Nic) -> str:
    """Whether a NIC gets what it asks for now: True or False, or empty if there is no answer yet."""
    found = find(nic.status.conditions, ALLOCATED)
    # That a deletion was asked for is a generation of its own, which changes nothing of what is asked for.
    wanted = nic.metadata.generation - nic.metadata.is_leaving
    current = nic.status.observed_generation >= wanted
    return found.status if found is not None and current and found.status in ("True", "False") else ""


def _fits(asked: str, has: str) -> bool:
    wanted = find_address(asked)
    return wanted is None or wanted == find_address(has)
