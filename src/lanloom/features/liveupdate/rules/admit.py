"""What the webhooks refuse of a NetworkSwap, and of an edit of a machine's networks, and what they warn of.

A NetworkSwap is refused that can't be right, or is one too many, and so are changes of what it asks for. With namespace
isolation they also refuse networks that a machine may not have, of a NetworkSwap and of a machine.

Whether the move can be done now is the preflight's business: what it finds passes, and is reported in the status. The
owner of a running machine is warned of it before an edit is stored: alongside KubeVirt, a condition comes too late, as
KubeVirt acts on the edit at once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, VmNic, nad_of
from lanloom.api.liveupdate import FINAL, QUIET, NetworkSwap, NetworkSwapSpec, Policy
from lanloom.api.meta import Key
from lanloom.api.multus import is_name
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.preflight import Findings
from lanloom.refusals import Denied
from lanloom.text import quote

_PROBLEMS_SHOWN = 3
_NETWORK = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,251}[a-z0-9])?")


def title_of(swap: NetworkSwap) -> str:
    """Return a swap for a message, by the beginning of its name while the API server is yet to generate it."""
    meta = swap.metadata
    return f"NetworkSwap {meta.namespace}/{meta.name or f'{meta.generate_name}…'}"


def check(swap: NetworkSwap) -> None:
    """Refuse a swap that can't be right. Raises Denied, which names the field and what it must be."""
    check_names(swap)
    spec, title = swap.spec, title_of(swap)
    if spec.from_ == spec.to:
        raise Denied(f"{title}: spec.to is {quote(spec.to)}, and so is spec.from; name another network")
    check_record(swap)


def check_record(swap: NetworkSwap) -> None:
    """Refuse a swap until the restart that would not be recorded. Raises Denied, as `check`."""
    spec, title = swap.spec, title_of(swap)
    if spec.until_restart and not spec.record:
        raise Denied(
            f"{title}: spec.untilRestart is true, so spec.record must be true: at its restart, the machine gets what "
            "the VirtualMachine names"
        )


def check_names(swap: NetworkSwap) -> None:
    """Refuse a swap whose names no object can have. Raises Denied, as `check`."""
    spec, title = swap.spec, title_of(swap)
    if not is_name(spec.machine):
        raise Denied(
            f"{title}: spec.machine is {quote(spec.machine)}; it must be the name of a VirtualMachineInstance"
        )
    if not spec.uid:
        raise Denied(
            f"{title}: spec.uid is empty; it must be the uid of the VirtualMachineInstance {spec.machine}"
        )
    if not _NETWORK.fullmatch(spec.network):
        raise Denied(
            f"{title}: spec.network is {quote(spec.network)}; it must be the name of a network in the machine's "
            "spec.networks"
        )
    for field, text in (("from", spec.from_), ("to", spec.to)):
        namespace, _, name = text.partition("/")
        if not is_name(namespace) or not is_name(name):
            raise Denied(f"{title}: spec.{field} is {quote(text)}; it must be namespace/name of a NAD")


def check_isolation(swap: NetworkSwap, isolation: NamespaceIsolation) -> None:
    """Refuse a swap to a NAD that the machine may not use; it may leave any. Raises Denied."""
    if why := isolation.against(swap.metadata.namespace, swap.spec.target):
        raise Denied(f"{title_of(swap)}: spec.to: {why}")


def forbidden_networks(
    new: VirtualMachine, old: VirtualMachine | None, namespace: str, isolation: NamespaceIsolation
) -> tuple[str, ...]:
    """Return why isolation forbids networks of a machine that it did not have before under the same name.

    A network that takes the place of the pod network is not Multus' to judge.
    """
    before = {item.name: _nad(item, namespace) for item in _networks(old)}
    title = f"VirtualMachine {namespace}/{new.metadata.name or f'{new.metadata.generate_name}…'}"

    def problems() -> Iterator[str]:
        for index, item in enumerate(_networks(new)):
            nad = _nad(item, namespace)
            if nad is None or nad == before.get(item.name) or not item.is_secondary:
                continue
            if why := isolation.against(namespace, nad):
                yield f"{title}: spec.template.spec.networks[{index}].multus.networkName: {why}"

    return tuple(islice(problems(), _PROBLEMS_SHOWN))


def _networks(machine: VirtualMachine | None) -> tuple[VmNic, ...]:
    template = machine.spec.template if machine is not None else None
    return template.spec.networks if template is not None else ()


def _nad(network: VmNic, namespace: str) -> Key | None:
    return nad_of(network.multus, namespace) if network.multus is not None else None


def check_change(new: NetworkSwapSpec, old: NetworkSwap) -> None:
    """Refuse any change of what a swap asks for. Raises Denied."""
    if new != old.spec:
        raise Denied(
            f"{title_of(old)}: spec can't be changed; delete the NetworkSwap once it has ended, and create another"
        )


def check_only(swap: NetworkSwap, others: Iterable[NetworkSwap]) -> None:
    """Refuse a second swap of one NIC while the first has not ended. Raises Denied."""
    meta, spec = swap.metadata, swap.spec
    for other in others:
        same = (other.metadata.namespace, other.spec.machine, other.spec.network) == (
            meta.namespace,
            spec.machine,
            spec.network,
        )
        if not same or other.metadata.uid == meta.uid or other.status.phase in FINAL:
            continue
        if other.status.phase in QUIET:
            raise Denied(
                f"{title_of(swap)}: {title_of(other)} keeps the NIC {spec.network} of {spec.machine} on "
                f"{other.spec.to} until the machine is restarted; restart it, or delete that NetworkSwap, which takes "
                f"the NIC back to {other.spec.from_}"
            )
        raise Denied(
            f"{title_of(swap)}: {title_of(other)} moves the NIC {spec.network} of {spec.machine} already (to "
            f"{other.spec.to}); wait until it has ended"
        )


def check_deletion(swap: NetworkSwap) -> None:
    """Refuse to delete a swap in the middle: the port would never be brought back. Raises Denied."""
    phase = swap.status.phase
    if phase not in ("", "Pending") and phase not in QUIET:
        raise Denied(
            f"{title_of(swap)} is {phase}; delete it when it has ended, at most some minutes from now"
        )


def check_report(new: NetworkSwap, old: NetworkSwap | None, node: str) -> None:
    """Refuse an agent anything but the port of a swap on its own node. Raises Denied."""
    before = old.status if old is not None else new.status
    if before.node != node:
        raise Denied(
            f"{title_of(new)}: the NIC is on node {quote(before.node)}; the agent of {node} reports its own only"
        )
    if replace(new.status, port=None) != replace(before, port=None):
        raise Denied(f"{title_of(new)}: an agent is allowed to write status.port only")
    if new.status.port is not None and new.status.port.node != node:
        raise Denied(f"{title_of(new)}: status.port.node must be {node}, the agent's own node")


def changed_networks(new: VirtualMachine, old: VirtualMachine, namespace: str) -> dict[str, Key]:
    """Return the NADs of networks that an edit gives other NADs, by the machine's own names."""
    before, after = _nads_by_name(old, namespace), _nads_by_name(new, namespace)
    return {name: nad for name, nad in after.items() if name in before and before[name] != nad}


def edit_warnings(
    title: str,
    machine: VirtualMachineInstance,
    mode: Mode,
    policy: Policy | None,
    changed: Mapping[str, Findings],
) -> Iterator[str]:
    """Yield what a running machine's owner should know of an edit. `changed` has the preflight of each network."""
    stuck = mode.name == "companion" and not machine.is_migratable
    for name, findings in changed.items():
        against = findings.both if stuck else _against(findings, mode, policy)
        if against:
            yield f"{title}: the network {name} can't change: {'; '.join(against)}"
    if not stuck:
        return
    move = f"`lanloom vm move {machine.metadata.name} {next(iter(changed))} --to NAD --policy in-place`"
    yield (
        f"{title} can't migrate, so this edit moves none of its ports; undo it and use {move}, which edits the "
        "VirtualMachine itself, or restart the machine"
    )
    if mode.evicts:
        yield (
            f"{title} may be shut down within seconds: KubeVirt {mode.kubevirt} has Evict in "
            "spec.workloadUpdateStrategy.workloadUpdateMethods"
        )


def _against(findings: Findings, mode: Mode, policy: Policy | None) -> tuple[str, ...]:
    """Return what stands against the way that an edit takes: alongside KubeVirt, that is a migration."""
    if mode.name == "full" and policy == "in-place":
        return findings.against_in_place
    if mode.name == "full" and policy == "prefer-in-place" and not findings.against_in_place:
        return ()
    return findings.against_migration


def _nads_by_name(machine: VirtualMachine, namespace: str) -> dict[str, Key]:
    template = machine.spec.template
    networks = template.spec.networks if template is not None else ()
    return {item.name: nad_of(item.multus, namespace) for item in networks if item.multus is not None}
