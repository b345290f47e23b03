"""What an owner should know of an edit of a VirtualMachine's networks before it is stored.

Alongside KubeVirt, a condition comes too late: KubeVirt acts on the edit at once.
"""

from collections.abc import Iterator, Mapping

from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, nad_of
from lanloom.api.liveupdate import Policy
from lanloom.api.meta import Key
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.preflight import Findings


def changed_networks(new: VirtualMachine, old: VirtualMachine, namespace: str) -> dict[str, Key]:
    """Return the NADs of networks that an edit gives other NADs, by the machine's own names."""
    before, after = _networks(old, namespace), _networks(new, namespace)
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


def _networks(machine: VirtualMachine, namespace: str) -> dict[str, Key]:
    template = machine.spec.template
    networks = template.spec.networks if template is not None else ()
    return {item.name: nad_of(item.multus, namespace) for item in networks if item.multus is not None}
