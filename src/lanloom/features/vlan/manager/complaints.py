"""What is reported of a ClusterNetwork apart from its conditions: Events about it, and about objects in conflict."""

from collections.abc import Iterable, Iterator, Mapping

from lanloom.api.core import EventDraft, ObjectReference
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, HostNetworkConfig
from lanloom.api.l3 import L3, AnnotationError
from lanloom.api.l3annotations import l3_of
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.vlan.rules.report.readiness import ISOLATED
from lanloom.features.vlan.rules.report.status import PASSING, READY
from lanloom.kube.conditions import find
from lanloom.kube.events import reference


def host_network_complaints(
    holders: Mapping[Key, L3], host_networks: Iterable[HostNetworkConfig]
) -> dict[ObjectReference, tuple[str, str]]:
    """Return what is reported of HostNetworkConfigs on VLANs of a NAD: they came later, past the webhooks."""
    owners = {value.vid: key for key, value in holders.items()}
    return {
        reference(HOST_NETWORK_CONFIGS, item): (
            "VlanIdTaken",
            f"VLAN {item.spec.vlanID} of {item.spec.cluster_network} already has node addresses of the "
            f"NetworkAttachmentDefinition {owners[item.spec.vlanID]}; delete one of the two",
        )
        for item in host_networks
        if item.spec.vlanID in owners and not item.metadata.is_deleting
    }


def unreported(faults: Iterable[str], nad: NetworkAttachmentDefinition) -> Iterator[str]:
    """Yield the faults of a NAD without the one by which its cluster network gives no node addresses, and says so."""
    said = ""
    try:
        l3_of(nad)
    except AnnotationError as error:
        said = str(error)
    return (fault for fault in faults if fault != said)


def readiness_events(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> tuple[EventDraft, ...]:
    """Return that a ClusterNetwork became ready, or stopped to be. A new one is not ready yet, which is no news.

    That nodes apply a change is nothing to warn of.
    """
    old, new = find(before, READY), find(after, READY)
    if old is None or new is None or old.status in ("Unknown", new.status) or new.reason == ISOLATED:
        return ()
    if new.status == "True":
        return (EventDraft("Normal", "Ready", "the uplinks of all its live nodes work"),)
    return (EventDraft("Normal" if new.reason in PASSING else "Warning", "NotReady", new.message),)
