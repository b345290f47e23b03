"""What blocks the deletion of networks and NICs: addresses in use, and owners that have not ended."""

from collections.abc import Iterable

from lanloom.api.ipam import (
    FINALIZER,
    NETWORKS,
    NICS,
    NODE,
    POD,
    VIRTUAL_MACHINE,
    Network,
    Nic,
)
from lanloom.api.liveupdate import swapped
from lanloom.features.ipam.manager.evidence import (
    Evidence,
    is_unused,
    live_evidence,
    may_go,
    places_of_nic,
)
from lanloom.features.ipam.state import is_open
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.runtime.blockers import MANAGER, Answer, Blocker, DeletionQuestion

_WHAT = f"finalizer {FINALIZER}"
_REMEDIES = {
    POD: "Delete the pod, or wait until it ends.",
    VIRTUAL_MACHINE: "Delete the VirtualMachine, or remove the network from it and stop it.",
}
_LET_GO = "Wait a moment. If this persists, check that a manager runs and leads, and read its log."


def network_blocker(network: Network, nics: Iterable[Nic]) -> Blocker | None:
    """Return what blocks a network that is being deleted: owned addresses, and grants that are not written yet."""
    if FINALIZER not in network.metadata.finalizers:
        return None
    name, every = network.metadata.name, {nic.metadata.uid: nic for nic in nics}
    owners = [nic for nic in every.values() if nic.status.network == name and nic.status.ips]
    owned = {nic.metadata.uid for nic in owners}
    granted = [
        grant
        for grant in network.status.grants
        if grant.uid not in owned and is_open(grant, every.get(grant.uid), name)
    ]
    if not owners and not granted:
        why = "its addresses have no owners, and the manager has not removed the finalizer yet"
        return Blocker(what=_WHAT, whose=MANAGER, why=why, remedy=_LET_GO)
    lines = [nic_line(nic) for nic in sorted(owners, key=lambda nic: nic.metadata.key)]
    lines += [f"Nic {grant.nic}: is being given {', '.join(grant.ips)}" for grant in granted]
    return Blocker(
        what=_WHAT,
        whose=MANAGER,
        why="NICs own addresses of it",
        waits_for=tuple(lines),
        remedy="Delete these NICs or their owners, or give them another network.",
    )


def nic_line(nic: Nic) -> str:
    """Describe a NIC with its owner and its addresses in a line."""
    owner = nic.spec.owner
    addresses = ", ".join(nic.status.ips) or "no address"
    return f"Nic {nic.metadata.key}: {addresses}, of {owner.kind} {owner.name}"


def nic_blocker(nic: Nic, evidence: Evidence) -> Blocker | None:
    """Return what blocks a NIC, or would: an owner that has not ended. `evidence` is what exists of the owner."""
    leaving = nic.metadata.is_deleting
    if FINALIZER not in nic.metadata.finalizers and leaving:
        return None
    owner = nic.spec.owner
    if may_go(nic, evidence):
        why = f"{owner.kind} {owner.name} has ended, and the manager has not removed the finalizer yet"
        if is_unused(nic, evidence):
            why = (
                f"{owner.kind} {owner.name} no longer has that network, and the manager has not removed "
                "the finalizer yet"
            )
        return Blocker(what=_WHAT, whose=MANAGER, why=why, remedy=_LET_GO) if leaving else None
    given = f"the addresses {', '.join(nic.status.ips)} are in use" if nic.status.ips else "it is in use"
    return Blocker(
        what=_WHAT,
        whose=MANAGER,
        why=f"{given} until {owner.kind} {owner.name} has ended",
        waits_for=tuple(_owners(nic, evidence)),
        remedy=_REMEDIES.get(owner.kind, ""),
    )


def nic_notes(nic: Nic) -> tuple[str, ...]:
    """Say that a deleted NIC comes back, where it does."""
    if nic.spec.owner.kind == NODE:
        return ("The manager recreates it while a NAD with mode pool gives the node an address.",)
    return ()


def _owners(nic: Nic, evidence: Evidence) -> Iterable[str]:
    for swap in evidence.swaps:
        if places_of_nic(nic) & swapped(swap):
            yield f"NetworkSwap {swap.metadata.key}: {swap.status.phase or 'Pending'}"
    if evidence.pod is not None:
        yield f"Pod {evidence.pod.metadata.key}: {evidence.pod.status.phase or 'not started by a node yet'}"
    if evidence.machine is not None:
        yield f"VirtualMachine {evidence.machine.metadata.key}"
    if evidence.instance is not None:
        phase = evidence.instance.status.phase or "not seen by KubeVirt yet"
        yield f"VirtualMachineInstance {evidence.instance.metadata.key}: {phase}"
    for pod in evidence.launchers:
        if not pod.has_ended:
            yield f"Pod {pod.metadata.key}: {pod.status.phase or 'not started by a node yet'}"


async def _network_answer(client: Reader, network: Network) -> Answer:
    if not network.metadata.is_deleting:
        return Answer()  # the webhook names the users
    return _answer(network_blocker(network, await list_or_empty(client, NICS)))


async def _nic_answer(client: Reader, nic: Nic) -> Answer:
    return _answer(nic_blocker(nic, await live_evidence(client, nic)), nic_notes(nic))


def _answer(blocker: Blocker | None, notes: tuple[str, ...] = ()) -> Answer:
    return Answer((blocker,) if blocker is not None else (), notes)


BLOCKERS = (
    DeletionQuestion(resource=NETWORKS, finalizer=FINALIZER, ask=_network_answer, kinds=(NICS,)),
    DeletionQuestion(resource=NICS, finalizer=FINALIZER, ask=_nic_answer),
)
