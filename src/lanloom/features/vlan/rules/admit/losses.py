"""What an allowed deletion, or edit of a node selector, takes away: warnings that name who uses it and what happens.

Virtual machines that run are no part of it: for their sake such a request is refused (`vms`). Pods and workloads
are not asked for when a network goes, as with Kubernetes' own objects, but their owners should not be surprised.
"""

from collections.abc import Iterable, Iterator

from lanloom.api.admission import AdmissionRequest, new_of, old_of
from lanloom.api.harvester import VLAN_CONFIGS, VlanConfig
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.reader import ClusterReader
from lanloom.nads.references import NadUse
from lanloom.text import listed


def losses(request: AdmissionRequest, reader: ClusterReader, users: NadUse | None) -> tuple[str, ...]:
    """Return the warnings about an allowed request. Without `users` it says nothing of pods and workloads."""
    if request.resource.resource == NADS.plural:
        nad = old_of(NADS, request)
        if nad is not None and new_of(NADS, request) is None:
            return tuple(_of_nad(nad, reader, users))
    if request.resource.resource == VLAN_CONFIGS.plural:
        config = old_of(VLAN_CONFIGS, request)
        if config is not None:
            return tuple(_of_config(config, new_of(VLAN_CONFIGS, request), reader, users))
    return ()


def _of_nad(nad: NetworkAttachmentDefinition, reader: ClusterReader, users: NadUse | None) -> Iterator[str]:
    key = nad.metadata.key
    if addresses := tuple(_addresses(cluster_network_of(nad), {key}, None, reader)):
        yield f"nodes lose their addresses of {NADS.kind} {key}: {listed(addresses)}"
    every = users.users_of(key) if users is not None else ()
    own = tuple(str(user) for user in every if user.namespace == key.namespace)
    count = len(every) - len(own)
    if found := (*own, f"{count} of other namespaces") if count else own:
        yield (
            f"{NADS.kind} {key} is used by {listed(found)}; what runs keeps its interface, and can't start again "
            "without the NAD"
        )


def _of_config(
    old: VlanConfig, new: VlanConfig | None, reader: ClusterReader, users: NadUse | None
) -> Iterator[str]:
    kept = reader.matching(new.spec.node_selector) if new is not None else ()
    lost = frozenset(reader.matching(old.spec.node_selector)) - frozenset(kept)
    network = old.spec.cluster_network
    if not lost:
        return
    if addresses := tuple(_addresses(network, None, lost, reader)):
        yield f"nodes lose their addresses on cluster network {network}: {listed(addresses)}"
    nads = sorted(nad.metadata.key for nad in reader.nads_of(network))
    found = (user for nad in nads for user in users.users_of(nad)) if users is not None else ()
    if named := {str(user) for user in found if not lost.isdisjoint(user.nodes)}:
        yield (
            f"{listed(sorted(lost))} lose the cluster network {network}, and these there all connections over it: "
            f"{listed(sorted(named))}"
        )


def _addresses(
    network: str, nads: Iterable[Key] | None, nodes: frozenset[str] | None, reader: ClusterReader
) -> Iterator[str]:
    """Yield the addresses that nodes have of these NADs of a cluster network, of all where one of both is None."""
    titles = frozenset(map(str, nads)) if nads is not None else None
    reports = sorted(reader.statuses_of(network), key=lambda report: report.status.node)
    for report in reports:
        for item in report.status.interfaces if nodes is None or report.status.node in nodes else ():
            if item.address and (titles is None or item.network in titles):
                yield f"{item.own_addresses} of {report.status.node}"
