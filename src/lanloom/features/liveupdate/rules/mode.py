"""Who changes the networks of running machines on this cluster: KubeVirt, Lanloom, or neither.

KubeVirt's controllers and Lanloom must never write the same field. KubeVirt's own object tells whether its controllers
run: it stays until the last of them is gone. Alongside them Lanloom can't take their part either, because their webhook
lets no other user change the spec of a VirtualMachineInstance.

| field | full | companion | restart |
|---|---|---|---|
| VM `status.conditions` RestartRequired, Failure | Lanloom | KubeVirt | KubeVirt |
| VMI `spec.networks`, `spec.domain.devices.interfaces` | Lanloom | KubeVirt | KubeVirt |
| VMI `status.conditions` MigrationRequired | Lanloom | KubeVirt | KubeVirt |
| migrations that no user asked for | Lanloom | KubeVirt | none for networks |
| networks annotation of a running launcher pod | Lanloom | KubeVirt | KubeVirt |
| VMI `status.conditions` NetworksCurrent | Lanloom | Lanloom | Lanloom |
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from lanloom.api.kubevirtconfig import EVICT, LIVE_MIGRATE, KubeVirt, KubeVirtVersion, parse_version

GATE = "LiveUpdateNADRef"
"""The feature gate of KubeVirt, and of Lanloom, for live update of networks."""

ModeName = Literal["full", "companion", "restart"]
"""`full`: Lanloom does all. `companion`: KubeVirt moves machines, and Lanloom adds to that. `restart`: KubeVirt runs
without this feature, so that another network needs a restart."""

_BETA, _GA = KubeVirtVersion(1, 8), KubeVirtVersion(1, 9)


class Mode(Struct, frozen=True):
    """The mode, and why; `kubevirt` is KubeVirt's object as `namespace/name`, empty in mode full.

    `migrates` is false where no controller migrates machines by itself, and `hint` says then what to do about that.
    `evicts` is true where KubeVirt shuts machines down that it can't migrate. `release` is KubeVirt's, in words.
    `pauses` says why KubeVirt migrates nothing at this moment; empty if it does.
    """

    name: ModeName
    reason: str
    kubevirt: str = ""
    migrates: bool = True
    evicts: bool = False
    hint: str = ""
    release: str = ""
    pauses: str = ""

    @property
    def actors(self) -> str:
        """Who acts on this cluster, in one sentence without its full stop."""
        if self.name == "full":
            return f"Lanloom migrates machines and moves NICs in place: {self.reason}"
        if self.name == "restart":
            return (
                f"{self.release} changes no network of a running machine, and Lanloom moves NICs in place of machines "
                f"that can't migrate only (--until-restart); {self.hint}"
            )
        own = "Lanloom moves NICs in place"
        if self.evicts:
            which = "those that can't migrate" if self.migrates else "machines"
            shuts = f"shuts {which} down for an edit (Evict)"
            migrates = f"migrates machines that can migrate and {shuts}" if self.migrates else shuts
            own += ", of the latter only with --force" if self.migrates else " only with --force"
        else:
            migrates = "migrates machines for an edit" if self.migrates else "migrates nothing by itself"
        more = "".join(f"; {text}" for text in (self.hint, self.pauses) if text)
        return f"{self.release} {migrates}, and {own}{more}"


def against_moves(mode: Mode | None, *, migratable: bool, until_restart: bool) -> str:
    """Return why no network of a running machine can change on this cluster; empty if one can, or if it is unknown.

    KubeVirt's webhook lets no other user write the new network into the instance. So after a move in place, the next
    migration would put the NIC back on the old network. A machine that can't migrate may move until its restart.
    """
    if mode is None or mode.name != "restart" or (until_restart and not migratable):
        return ""
    other = "" if migratable else ", move it in place with --until-restart"
    return f"mode restart: {mode.reason}; edit the VirtualMachine and restart it{other}, or {mode.hint}"


def against_eviction(mode: Mode | None, *, migratable: bool) -> str:
    """Return why KubeVirt could shut a machine down for a move in place; empty if it does not, or if it is unknown."""
    if mode is None or not mode.evicts or (mode.migrates and migratable):
        return ""
    return (
        f"could be shut down: KubeVirt {mode.kubevirt} evicts machines whose networks change and that it does not "
        "migrate (Evict in spec.workloadUpdateStrategy.workloadUpdateMethods); remove Evict there, or move the NIC all "
        "the same with --force (spec.force of the NetworkSwap)"
    )


def mode_of(installed: Sequence[KubeVirt]) -> Mode:
    """Return the mode. `installed` are KubeVirt's objects in the cluster.

    Of several objects, which KubeVirt itself does not allow, the first by name counts.
    """
    if not installed:
        return Mode("full", "KubeVirt's controllers don't run on this cluster")
    found = min(installed, key=lambda item: item.metadata.key)
    name, text = str(found.metadata.key), found.status.observed_version
    version = parse_version(text)
    if version is None:
        reason = f"KubeVirt {name} tells no version that can be read ({text or 'none'}); it is taken for a recent one"
        return _companion(found, f"KubeVirt {name}, whose version can't be read,", reason)
    release = f"KubeVirt {text}"
    if version >= _GA:
        return _companion(found, release, f"{release} changes networks of running machines")
    if version == _BETA and GATE in found.spec.configuration.developer_configuration.feature_gates:
        reason = f"{release} changes networks of running machines (feature gate {GATE})"
        return _companion(found, f"{release} with the feature gate {GATE}", reason)
    if version == _BETA:
        remedy = f"add {GATE} to spec.configuration.developerConfiguration.featureGates of KubeVirt {name}"
    else:
        remedy = "update KubeVirt to 1.9, or to 1.8 with the feature gate " + GATE
    reason = f"{release} does not change networks of running machines"
    return Mode("restart", reason, name, migrates=False, hint=remedy, release=release)


def _companion(found: KubeVirt, release: str, reason: str) -> Mode:
    name, methods = str(found.metadata.key), found.spec.workload_update_strategy.workload_update_methods
    evicts = EVICT in methods
    if LIVE_MIGRATE in methods:
        pauses = f"KubeVirt {name} is being deployed or updated, and migrates nothing until that is done"
        pauses = "" if found.status.is_settled else pauses
        return Mode("companion", reason, name, evicts=evicts, release=release, pauses=pauses)
    hint = (
        f"add {LIVE_MIGRATE} to spec.workloadUpdateStrategy.workloadUpdateMethods of KubeVirt {name}, "
        "or migrate the machine by hand"
    )
    return Mode("companion", reason, name, migrates=False, evicts=evicts, hint=hint, release=release)
