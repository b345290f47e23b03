"""KubeVirt's own live update of networks, release by release, as rules on values: the lab and simulations play it.

What differs between releases is behaviour, and each rule names the place in KubeVirt's sources that it was read from.
Lanloom's rules are not used here: they are what is tested alongside these.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from lanloom.api.kubevirt import VirtualMachineInstance, VmNic
from lanloom.api.meta import Condition, parse_rfc3339, rfc3339
from lanloom.kube.conditions import find

Raw = dict[str, Any]

GATE = "LiveUpdateNADRef"
MIGRATION_REQUIRED = "MigrationRequired"

GRACE_SECONDS = 15.0
"""`DynamicNetworkControllerGracePeriod` in pkg/network/migration/evaluator.go."""

Copies = Literal["never", "always", "migratable"]
"""Of which running machines KubeVirt copies another NAD to the instance."""


class Release(Struct, frozen=True, kw_only=True):
    """How a release behaves. With `gate`, its feature gate `LiveUpdateNADRef` is switched on."""

    version: str
    copies: Copies
    gate: bool = False

    @property
    def compares_nads(self) -> bool:
        """Whether the evaluator compares NADs with the launcher pod's network-status.

        `shouldVMIBeMarkedForAutoMigration` in pkg/network/migration/evaluator.go: not in 1.7, behind the gate in 1.8.
        """
        return self.copies != "never"


RELEASES: Mapping[str, Release | None] = {
    "none": None,
    "1.7": Release(version="v1.7.4", copies="never"),
    "1.8": Release(version="v1.8.4", copies="never"),
    "1.8+gate": Release(version="v1.8.4", copies="always", gate=True),
    "1.9": Release(version="v1.9.0", copies="always"),
    "main": Release(version="v1.10.0-alpha.0", copies="migratable"),
}
"""`syncVMIInterfaces` in pkg/network/controllers/vm.go, in v1.7.4, v1.8.4, v1.9.0 and main (22 August 2026).

`none` is a cluster without KubeVirt's controllers, on which Lanloom does their part.
"""


def installation(release: Release, methods: Collection[str]) -> Raw:
    """Return KubeVirt's own object, of a release that is deployed."""
    gates = {"developerConfiguration": {"featureGates": [GATE]}} if release.gate else {}
    return {
        "metadata": {"name": "kubevirt"},
        "spec": {
            "configuration": gates,
            "workloadUpdateStrategy": {"workloadUpdateMethods": list(methods)},
        },
        "status": {"phase": "Deployed", "observedKubeVirtVersion": release.version},
    }


def sync(
    release: Release, template: Raw, spec: Raw, reported: Collection[str], *, migratable: bool
) -> list[Raw]:
    """Return the JSON patch that takes a template's networks to an instance; none where there is nothing to take.

    `spec` is the instance's, `reported` the names in its `status.interfaces`. `syncVMIInterfaces`, and the tests and
    adds of `vmiInterfacesPatch`, in pkg/network/controllers/vm.go.
    """
    networks, interfaces = _networks(spec), _interfaces(spec)
    wanted = {item["name"]: item for item in _networks(template)}
    present = {item["name"]: item for item in interfaces}
    new_interfaces, new_networks = [dict(item) for item in interfaces], [*networks]
    for item in _interfaces(template):
        old, state = present.get(item["name"]), item.get("state", "")
        if old is None and state != "absent" and ("bridge" in item or "sriov" in item):
            new_networks.append(wanted[item["name"]])
            new_interfaces.append(item)
        elif old is not None and state != old.get("state", "") and old.get("state", "") != "absent":
            next(new for new in new_interfaces if new["name"] == item["name"])["state"] = state
    kept = [item for item in new_interfaces if item.get("state") != "absent" or item["name"] in reported]
    names = {item["name"] for item in kept}
    new_networks = [item for item in new_networks if item["name"] in names]
    if release.copies == "always" or (release.copies == "migratable" and migratable):
        new_networks = [_renamed(item, wanted.get(item["name"])) for item in new_networks]
    return _replaced("/spec", networks, new_networks, interfaces, kept)


def without_unplugged(template: Raw, spec: Raw, reported: Collection[str]) -> list[Raw]:
    """Return the JSON patch that takes unplugged NICs out of the template of a machine; none where there is none.

    `clearDetachedIfacesFromVM` in pkg/network/controllers/vm.go, in all releases.
    """
    networks, interfaces = _networks(template), _interfaces(template)
    present = {item["name"] for item in _interfaces(spec)} | {*reported}
    kept = [item for item in interfaces if item.get("state") != "absent" or item["name"] in present]
    names = {item["name"] for item in kept}
    left = [item for item in networks if item["name"] in names]
    return _replaced("/spec/template/spec", networks, left, interfaces, kept)


def _replaced(
    at: str,
    networks: Sequence[Raw],
    new_networks: Sequence[Raw],
    interfaces: Sequence[Raw],
    new_interfaces: Sequence[Raw],
) -> list[Raw]:
    if (new_networks, new_interfaces) == (networks, interfaces):
        return []
    return [
        {"op": "test", "path": f"{at}/networks", "value": networks},
        {"op": "add", "path": f"{at}/networks", "value": new_networks},
        {"op": "test", "path": f"{at}/domain/devices/interfaces", "value": interfaces},
        {"op": "add", "path": f"{at}/domain/devices/interfaces", "value": new_interfaces},
    ]


def _renamed(network: Raw, wanted: Raw | None) -> Raw:
    """Return a network with the NAD that is wanted. `syncNetworks` in pkg/network/controllers/vm.go."""
    if wanted is None or "multus" not in wanted or "multus" not in network:
        return network
    return network | {"multus": network["multus"] | {"networkName": wanted["multus"]["networkName"]}}


def restart_required(release: Release, started: Raw, template: Raw, spec: Raw, *, migratable: bool) -> bool:
    """Return whether the networks of a template come into force at a restart only.

    `started` is the template of the start, from the ControllerRevision. `syncRestartRequired` in
    pkg/virt-controller/watch/vm/vm.go asks `IsRestartRequired` in pkg/network/vmliveupdate/restart.go, and compares
    with the start only what that calls changed.
    """
    ignores_nads = release.copies == "always" or (release.copies == "migratable" and migratable)
    changed = _changed(_interfaces(template), _interfaces(spec), _without_state) or _changed(
        _networks(template), _networks(spec), _without_nad if ignores_nads else dict
    )
    pod_network_added = any("pod" in item for item in _networks(template)) and not any(
        "pod" in item for item in _networks(spec)
    )
    lists = (_networks(started), _interfaces(started)), (_networks(template), _interfaces(template))
    return (changed or pod_network_added) and lists[0] != lists[1]


def _changed(wanted: Sequence[Raw], present: Sequence[Raw], normal: Any) -> bool:
    by_name = {item["name"]: item for item in wanted}
    return any(
        item["name"] not in by_name or normal(by_name[item["name"]]) != normal(item) for item in present
    )


def _without_state(interface: Raw) -> Raw:
    return {name: value for name, value in interface.items() if name != "state"}


def _without_nad(network: Raw) -> Raw:
    return network | {"multus": network["multus"] | {"networkName": ""}} if "multus" in network else network


Need = Literal["none", "pending", "immediate"]


def need_of(release: Release, vmi: VirtualMachineInstance, attached: Mapping[str, str]) -> Need:
    """Return whether an instance has to migrate. `attached` are NADs by the interface of the pod's network-status.

    The first finding counts. `shouldVMIBeMarkedForAutoMigration` in pkg/network/migration/evaluator.go.
    """
    statuses = {item.name: item for item in vmi.status.interfaces}
    networks = {item.name: item for item in vmi.spec.networks if item.is_secondary}
    for interface in vmi.spec.interfaces:
        network, status = networks.get(interface.name), statuses.get(interface.name)
        if network is None:
            continue
        if interface.state != "absent" and status is None:
            return "immediate" if interface.sriov is not None else "pending"
        if status is None:
            continue
        if interface.state == "absent" and status.is_from("multus-status") and not status.is_from("domain"):
            return "pending"
        found = attached.get(status.pod_interface_name)
        if release.compares_nads and found is not None and not _is_same(network, found, vmi):
            return "immediate"
    return "none"


def _is_same(network: VmNic, found: str, vmi: VirtualMachineInstance) -> bool:
    """`isNADNameEqual` in pkg/network/migration/evaluator.go."""
    assert network.multus is not None
    name = network.multus.network_name
    return found == name or ("/" not in name and found == f"{vmi.metadata.namespace}/{name}")


def migration_required(vmi: VirtualMachineInstance, need: Need, now: float) -> tuple[Condition | None, bool]:
    """Return the condition MigrationRequired that an instance is to have, and whether that is another one.

    `syncMigrationRequiredCondition` in pkg/virt-controller/watch/vmi/lifecycle.go, with `Evaluate` in
    pkg/network/migration/evaluator.go: nothing is written while it migrates, and True stays while anything is needed.
    """
    existing = find(vmi.status.conditions, MIGRATION_REQUIRED)
    if vmi.is_migrating:
        return existing, False
    if need == "none":
        return None, existing is not None
    if existing is not None and existing.status == "True":
        return existing, False
    waited = existing is not None and now - parse_rfc3339(existing.last_transition_time) > GRACE_SECONDS
    due = need == "immediate" or waited
    if existing is not None and not due:
        return existing, False
    reason = "AutoMigrationDueToLiveUpdate" if due else "AutoMigrationPending"
    status: Literal["True", "False"] = "True" if due else "False"
    return (
        Condition(type=MIGRATION_REQUIRED, status=status, reason=reason, last_transition_time=rfc3339(now)),
        True,
    )


def refuse_spec(before: Raw, after: Raw, *, by_kubevirt: bool) -> str:
    """Return why an instance may not be updated; empty if it may.

    `Admit` in pkg/virt-api/webhooks/validating-webhook/admitters/vmi-update-admitter.go, in all releases.
    """
    return "" if by_kubevirt or before == after else "update of VMI object is restricted"


def _networks(spec: Raw) -> list[Raw]:
    return list(spec.get("networks") or ())


def _interfaces(spec: Raw) -> list[Raw]:
    return list(((spec.get("domain") or {}).get("devices") or {}).get("interfaces") or ())
